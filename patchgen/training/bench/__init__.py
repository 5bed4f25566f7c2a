"""`patchgen bench` measures what training with a variant costs, beside stock transformers.

Read top down: `matrix` and `tables` say what is compared, `run` starts processes and keeps their
results (`record`), `child` is such a process, `round` takes the times, `verdict` says what they
mean, and `page` shows them.  `patchgen verify` proves on tiny models that a variant computes what
its parent does.  `reference` checks that again in the run that is timed, because fast but wrong
results do not count.

Only the command line imports this package.
"""
