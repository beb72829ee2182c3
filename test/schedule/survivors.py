"""survivors.py - mutations that nothing catches, each with the reason why that is right."""

# where (the beginning of file:line), code, change, reason
EXPLAINED = []
