"""What a person typed arrives on a host as it was typed."""

from appliance.lab.ssh import remote_words


def test_several_words_are_kept_apart() -> None:
    assert remote_words(("sh", "-c", "a b")) == ("sh -c 'a b'",)


def test_one_word_is_a_line_for_the_shell_there() -> None:
    assert remote_words(("ls /dev | wc -l",)) == ("ls /dev | wc -l",)


def test_no_word_opens_a_shell() -> None:
    assert remote_words(()) == ()
