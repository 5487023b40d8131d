"""How a run ended: the models that silos end with, baselines to compare with, their scores, and who gained."""
