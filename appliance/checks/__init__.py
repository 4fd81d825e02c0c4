"""What a judgement of facts is, and which failure explains which others. The checks are with their stages."""
