"""Where a simulation runs: on Flower's engine, or in this process. And Flower's own programs, run for the user."""
