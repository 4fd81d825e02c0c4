"""appliance validate: a group of commands, one for each benchmark, trial and reader of results."""

from importlib import import_module
from pathlib import Path
from typing import cast

import click
from click.shell_completion import CompletionItem

from appliance.cli import options
from appliance.cli.files import InputFile

MEASURED = {
    "storage": "Every host reads the files that the others wrote",
    "slurm": "One GPU job over all hosts",
    "queue": "One GPU pod through a queue of a project",
    "alerts": "A test alert to each receiver of the site",
    "gpt3": "GPT-3 training throughput",
    "dcgm": "DCGM's diagnostics of every GPU",
    "nvbandwidth": "Copies between each GPU, its host and its peers",
    "gemm": "Matrix products and memory of each GPU by itself",
    "nccl": "Collectives in a host and between hosts",
    "perftest": "Every rail of pairs of hosts",
    "fio": "Scratch and shared storage: bandwidth and small files",
    "hpcc": "STREAM and HPL on the processors of each host",
    "model-load": "Model weights from storage into memory",
    "serving": "Answers of a served model by request rate",
    "burnin": "Hours under load: heat, power, clocks, errors",
}
"""Benchmarks with their titles. Several of them may be named in one call."""
TRIALS = {
    "scheduler": "Promises of the scheduler, tried in the cluster",
    "workloads": "Add-ons of stage workloads, each with a trial",
    "conformance": "AI conformance of CNCF, with its evidence",
}
READERS = {
    "gpt3-logs": "Judge the logs of finished GPT-3 trainings",
    "gpt3-render": "Write job files of GPT-3 trainings on GPUs",
    "serving-results": "Judge a result of vllm bench serve",
}
NAMES = {**MEASURED, **TRIALS, **READERS}
MODULES = {
    "scheduler": "scheduler_trial",
    "workloads": "workloads_trial",
    "conformance": "conformance_trial",
    "gpt3-logs": "gpt3_logs",
    "gpt3-render": "gpt3_render",
    "serving-results": "serving_results",
}
"""The modules of the commands that are not in ``measured``."""
FORMER = {
    ("gpt3", "--from-logs"): ("gpt3-logs",),
    ("gpt3", "--table"): ("gpt3-logs", "--table"),
    ("gpt3", "--render"): ("gpt3-render",),
    ("serving", "--results"): ("serving-results",),
    ("serving", "--table"): ("serving-results", "--table"),
}
"""Commands that were options: the benchmark and its option, and the words that replace them."""
_LISTED = click.Group(commands=[click.Command(n, short_help=t) for n, t in NAMES.items()])


def command_named(name: str) -> click.Command:
    """The command of a name in NAMES, imported on access."""
    if name in MODULES:
        module = import_module(f"appliance.cli.{MODULES[name]}")
        return cast(click.Command, module.COMMAND)
    from appliance.cli.measured import command

    return command((name,))


class Benchmarks(click.Group):
    """Commands by name, each imported when it is called. A call may name several benchmarks, and options stand anywhere."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for an unknown name."""
        if cmd_name in NAMES and cmd_name not in self.commands:
            self.commands[cmd_name] = command_named(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of names, without importing their commands."""
        _LISTED.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names, and the options of a call without a name."""
        named = [
            CompletionItem(name, help=title)
            for name, title in NAMES.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """With a name among them, the words belong to its command, also those before the name."""
        return super().parse_args(ctx, ["--", *args] if self._words(ctx, args) else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of all names in ``args``, with its words. Raises UsageError."""
        args = _as_now(ctx, args)
        words = self._words(ctx, args)
        first = words[0]
        if first not in NAMES:
            raise click.UsageError(f"no benchmark '{first}'; names: {', '.join(NAMES)}", ctx)
        named = [word for word in words if word in NAMES]
        for name in named if len(named) > 1 else ():
            if name in TRIALS:
                verb = "are" if name == "workloads" else "is"
                raise click.UsageError(f"{name} {verb} run alone: appliance validate {name}", ctx)
        if first in MODULES:
            rest = list(args)
            rest.remove(first)
            return first, self.get_command(ctx, first), rest
        if len(words) == 1:
            return first, self.get_command(ctx, first), args
        from appliance.cli.measured import command

        return " ".join(words), command(tuple(words)), args

    def _words(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What is neither an option nor the value of one."""
        if not any(word[:1] != "-" for word in args):
            return []
        params = [*self.params, *_former_options()]
        if args[0] not in MODULES:
            from appliance.cli.measured import every_option

            params += every_option()
        if args[0] not in MEASURED:
            among = (args[0],) if args[0] in MODULES else tuple(MODULES)
            params += [param for name in among for param in command_named(name).params]
        unique = {tuple(p.opts): p for p in params if isinstance(p, click.Option)}
        known = click.Command("any", params=list(unique.values()))
        context = click.Context(known, ignore_unknown_options=True, resilient_parsing=True)
        _, words, _ = known.make_parser(context).parse_args(list(args))
        return [word for word in words if word[:1] != "-"]


def _former_options() -> list[click.Option]:
    """Options that are commands now."""
    flags = {"--table"}
    return [click.Option([o], is_flag=o in flags) for o in {option for _, option in FORMER}]


def _as_now(ctx: click.Context, args: list[str]) -> list[str]:
    """The words, with a command instead of an option that it replaces, and a warning."""
    for (name, option), (command, *more) in FORMER.items():
        given = [word for word in args if word.partition("=")[0] == option]
        if name not in args or not given:
            continue
        from appliance.cli.renamed import UNTIL, warn

        now = " ".join((command, *more))
        warn(ctx, f"{name} {option} is now: appliance validate {now}; the old form works {UNTIL}")
        at = args.index(given[0])
        values = [given[0].partition("=")[2]] if "=" in given[0] else []
        rest = [*args[:at], *values, *args[at + 1 :]]
        rest.remove(name)
        return [command, *rest, *more]
    return args


@click.group(cls=Benchmarks, invoke_without_command=True, subcommand_metavar="[NAME]...")
@options.target_options
@click.option(
    "--through",
    type=click.Choice(["slurm", "kubernetes"]),
    help="Run what needs no GPU through this scheduler.",
)
@click.option("--queue", default="default", hidden=True)
@click.option("--image", default="", hidden=True)
@click.option("--kubeconfig", type=InputFile(), hidden=True)
@click.option("--resume", metavar="RUN", help="Resume an interrupted run.")
@click.option("--self-test", is_flag=True, help="Test every gate with forged evidence.")
@click.option(
    "--foreign", type=InputFile(), metavar="FILE", help="Add another program's audit to the record."
)
@click.option("-v", "--verbose", is_flag=True, help="Print every step as a line.")
@options.format_option("junit")
@click.pass_context
def validate(
    context: click.Context,
    inventory: Path | None,
    profile: str | None,
    through: str | None,
    queue: str,
    image: str,
    kubeconfig: Path | None,
    resume: str | None,
    self_test: bool,
    foreign: Path | None,
    verbose: bool,
    shape: str,
    as_json: bool,
) -> int:
    """Run the cluster's benchmarks and judge their results.

    Without a NAME: those of a deployment. Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete.
    """
    if context.invoked_subcommand:
        return 0
    from appliance.cli import measured

    shape = options.chosen_format(shape, as_json)
    if resume or foreign:
        measured.refuse_more(context, "resume" if resume else "foreign")
        where = options.target(inventory, profile)
        return measured.continued(where, resume, foreign, shape, verbose=verbose)
    if self_test:
        return measured.self_test(inventory, profile, shape)
    given = {
        **{"inventory": inventory, "profile": profile, "queue": queue, "image": image},
        **{"kubeconfig": kubeconfig, "verbose": verbose, "shape": shape},
    }
    return measured.run((), {**given, "through": through} if through else given)
