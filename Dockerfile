# Lazuli in an image of its own programs, certificates and nothing else.
#
#   docker build -t lazuli .
#   docker run --rm -p 127.0.0.1:10000-10002:10000-10002 -v lazuli:/data lazuli
#
# Arguments after the image's name are arguments of lazuli.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -pgo packaging/server.pgo -ldflags "-s -w -X github.com/lazuli-storage/lazuli/internal/buildinfo.version=${VERSION}" -o /out/ ./cmd/lazuli ./cmd/lazuli-search
# Folders of the last stage, which has no shell to make them: data, and temporary files for --in-memory.
RUN mkdir -p /out/folders/data /out/folders/tmp && chmod 1777 /out/folders/tmp
# Azurite's programs by their names, as modules of Testcontainers start them.
RUN mkdir /out/names && for name in lazuli azurite azurite-blob azurite-queue azurite-table; do ln -s /lazuli /out/names/$name; done

# An image that runs functions in JavaScript and Python for custom handlers: the app is mounted at /app. Functions that are not anonymous
# ask for a key of /home/node/keys.json, which is written at the start if it is not mounted.
#
#   docker build --target functions -t lazuli-functions .
#   docker run --rm -p 127.0.0.1:7071:7071 -v ./examples/functions/python:/app -e LAZULI_CONNECTION_STRING=... lazuli-functions
FROM node:22-bookworm-slim AS functions
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/lazuli /usr/local/bin/lazuli
USER node
WORKDIR /app
EXPOSE 7071
ENTRYPOINT ["lazuli", "func", "start", "--host", "0.0.0.0", "--keys", "/home/node/keys.json"]

FROM scratch AS lazuli
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /out/folders/ /
COPY --from=build /out/lazuli /out/lazuli-search /
COPY --from=build /out/names/ /usr/local/bin/
USER 65532:65532
# Inside a container every address is the container's own; what is published decides who reaches it.
ENV LAZULI_HOST=0.0.0.0 LAZULI_ADMIN_HOST=0.0.0.0 LAZULI_LOCATION=/data
VOLUME /data
EXPOSE 10000 10001 10002 10003
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s CMD ["/lazuli", "health"]
ENTRYPOINT ["/lazuli"]
