FROM python:3.11-slim AS build
WORKDIR /source
COPY requirements/build.txt requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY server server
COPY storage storage
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:3.11-slim
# Before the project itself, so that a change of ours does not download everything again.
RUN --mount=type=bind,source=requirements/runtime.txt,target=/tmp/runtime.txt \
    pip install --no-cache-dir --require-hashes -r /tmp/runtime.txt
RUN --mount=type=bind,from=build,source=/wheels,target=/tmp/wheels \
    pip install --no-cache-dir --no-deps /tmp/wheels/*.whl
# 1000 is the first user of most Linux desktops, so people can edit what lands in a mounted folder.
RUN useradd --uid 1000 --create-home holdfast \
    && install --directory --owner=holdfast --group=holdfast /project
USER holdfast
WORKDIR /project
ENTRYPOINT ["holdfast"]
