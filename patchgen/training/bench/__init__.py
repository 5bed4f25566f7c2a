"""`patchgen bench`: what training by a variant costs on this machine, beside what people would use instead.

Read top down: `matrix` and `tables` say what is compared, `run` starts processes and keeps their results (`record`),
`child` is such a process, `turn` takes the times, `verdict` says what they mean, `page` shows them.  What `patchgen
verify` proves on tiny models, that a variant computes what its parent does, is looked at here once more, in the run
that is timed (`reference`): nothing that is fast and wrong counts.

Nothing else in patchgen but the command line imports this package.
"""
