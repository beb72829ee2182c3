def run_all(*a): return []
