// Package otlp holds the tests of assay's OTLP receiver against the exporters of
// the OpenTelemetry SDK, through a whole running installation. It is a module of
// its own, so that what they need stays out of assay's.
package otlp
