"""FLOPs of a model and of a device, for the MFU of `train` and `bench`."""
