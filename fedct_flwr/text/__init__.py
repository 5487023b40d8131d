"""Words for people: names that hide nothing, numbers with what they count, the nearest known name."""
