"""Settings of runs, silos and studies. The only place that reads raw mappings."""
