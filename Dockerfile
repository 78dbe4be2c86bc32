# For those who prefer it to `make image`, which needs no Docker and makes the same image but for
# its timestamps: three static binaries, no shell, no libraries.
#
#   docker build --build-arg VERSION=1.2.3 -t example.com/mainstay:1.2.3 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG VERSION=0.0.0-dev
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY charts charts
COPY cmd cmd
COPY internal internal
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/mainstay-platform/mainstay/internal/version.Version=$VERSION" \
      -o /out/ ./cmd/mainstay ./cmd/mainstay-apiserver ./cmd/mainstay-instance

FROM scratch
ARG VERSION=0.0.0-dev
LABEL org.opencontainers.image.title="Mainstay" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.source="https://github.com/mainstay-platform/mainstay" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build --chmod=0555 /out/mainstay /out/mainstay-apiserver /out/mainstay-instance /
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/mainstay"]
