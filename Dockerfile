# docker build -t herd .    docker run --rm -v "$PWD:/data" herd fit-rbm digits.h5 -o rbm.h5
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY . /source
RUN HERD_REQUIRE_EXT=1 pip wheel --no-cache-dir --no-deps -w /wheels /source

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[plot,table,image]" && rm -r /wheels
WORKDIR /data
ENTRYPOINT ["herd"]
