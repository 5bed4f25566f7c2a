"""How much arithmetic a model needs and how much a device does: what MFU is made of, for `train` and `bench`."""
