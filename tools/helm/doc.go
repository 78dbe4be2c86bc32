// Package helm pins the Helm that renders, installs and tests the chart: `go tool helm` in this
// directory, or bin/helm. Helm's dependencies stay out of the product's module. Its tests are
// those of charts/mainstay.
package helm
