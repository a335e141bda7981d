# docker build -t holdfast .
# docker run --rm -i --read-only -v "$PWD:/project" holdfast
# Any image with Python 3.11 or newer will do, for example one from a mirror: --build-arg BASE=…
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
WORKDIR /source
# Before the project itself, so that a change of ours does not download everything again.
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN python -m venv /opt/holdfast \
    && /opt/holdfast/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt \
    && pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY server server
COPY storage storage
# Compiled here, because a read-only container cannot do it. Nothing is installed later: pip stays behind.
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/holdfast/bin/pip install --no-cache-dir --no-deps /wheels/*.whl \
    && /opt/holdfast/bin/pip uninstall --yes pip setuptools \
    && python -m compileall -q /opt/holdfast/lib

FROM ${BASE}
COPY --from=build /opt/holdfast /opt/holdfast
# 1000 is the first user of most Linux desktops, so people can edit what lands in a mounted folder.
RUN useradd --uid 1000 --create-home holdfast \
    && install --directory --owner=holdfast --group=holdfast /project
ENV PATH=/opt/holdfast/bin:$PATH \
    XDG_CONFIG_HOME=/config
USER 1000:1000
WORKDIR /project
VOLUME /project
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python", "-m", "holdfast_server.cli.health"]
ENTRYPOINT ["holdfast"]
CMD ["serve"]
