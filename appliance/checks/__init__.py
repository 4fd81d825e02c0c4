"""What a judgement of facts is, and which failure explains which others. Checks themselves lie with their stage."""
