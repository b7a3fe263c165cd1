"""What was run: one query returns one frame; stored embeddings; the measures and statistics of runs."""

from hypo.runs.frame import Origin, Origins, Setting, failed_to_train, in_heap, load, made_with, of, row
from hypo.runs.measures import MEASURES, accuracies, column, leads, values
from hypo.runs.statistics import CONFIDENCE, KEYS, Estimate, averages, estimate, paired, summarise, together
from hypo.runs.stored import Embeddings, embeddings
