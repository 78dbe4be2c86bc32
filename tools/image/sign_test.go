package main

import (
	"regexp"
	"testing"
)

// TestSignWhatWasPushed: the tag could be moved between the push and the signature.
func TestSignWhatWasPushed(t *testing.T) {
	p := newPipeline(t)
	p.run(t, "push", "VERSION=1.2.3")
	output := p.run(t, "sign", "VERSION=1.2.3")
	signed := regexp.MustCompile(`(?m)^cosign (?:sign|attest) --yes .*`+regexp.QuoteMeta(p.registry)+
		`/mainstay/mainstay:1\.2\.3@sha256:[0-9a-f]{64}$`).FindAllString(output, -1)
	if len(signed) != 2 {
		t.Errorf("signed %q: %s", signed, output)
	}
}
