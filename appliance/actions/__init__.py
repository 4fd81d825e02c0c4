"""What each verb does; one file per verb."""
