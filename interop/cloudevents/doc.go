// Package cloudevents holds the tests of assay's gateway and intake against the
// CloudEvents SDK, through a whole running installation. It is a module of its own,
// so that what they need stays out of assay's.
package cloudevents
