# patchgen with torch, for an NVIDIA GPU:
#
#     docker build -t patchgen .
#     docker run --rm --gpus all -v "$PWD/runs:/app/runs" patchgen train llama_loss --tiny --max_steps 100
#
# Without a GPU leave out `--gpus all`.  On NVIDIA's image instead of PyTorch's:
#
#     docker build -t patchgen --build-arg BASE=nvcr.io/nvidia/pytorch:25.10-py3 .
ARG BASE=pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime
FROM ${BASE}

# The torch of the image is recent enough, so pip leaves it as it is.  The image's Python belongs to
# the system; here nobody else uses it.
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PYTHONUNBUFFERED=1
WORKDIR /app
COPY pyproject.toml README.md LICENSE NOTICE patchgen.lock ./
COPY patchgen patchgen
COPY generated generated
COPY modular modular
RUN python -m pip install --no-cache-dir -e '.[train]'

ENTRYPOINT ["patchgen"]
CMD ["--help"]
