package aggregated

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// TestValidate: errors of flags name the flag, the given value and the accepted ones.
func TestValidate(t *testing.T) {
	t.Parallel()
	certificate := []string{"--tls-cert-file=tls.crt", "--tls-private-key-file=tls.key"}
	for name, one := range map[string]struct {
		flags []string
		says  string
	}{
		"the least":           {certificate, ""},
		"both resources":      {append([]string{"--resources=farmpods,llamas"}, certificate...), ""},
		"llamas in memory":    {append([]string{"--resources=llamas", "--llama-storage=memory"}, certificate...), ""},
		"no certificate":      {nil, "--tls-cert-file and --tls-private-key-file are required"},
		"no key":              {certificate[:1], "--tls-cert-file and --tls-private-key-file are required"},
		"no resource":         {append([]string{"--resources="}, certificate...), "--resources: must name at least one of farmpods, llamas"},
		"an unknown resource": {append([]string{"--resources=farmpods,goats"}, certificate...), `--resources: unsupported value "goats": must be one of farmpods, llamas`},
		"an unknown storage":  {append([]string{"--llama-storage=etcd"}, certificate...), `--llama-storage: unsupported value "etcd": must be one of records, memory`},
		"a negative delay": {append([]string{"--shutdown-delay-duration=-1s"}, certificate...),
			"--shutdown-delay-duration: must not be negative"},
		"a port that is none":   {append([]string{"--secure-port=70000"}, certificate...), "--secure-port"},
		"an unknown audit mode": {append([]string{"--audit-log-path=-", "--audit-log-mode=eager"}, certificate...), "eager"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := NewOptions()
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			options.AddFlags(flags)
			err := flags.Parse(one.flags)
			if err == nil {
				err = options.validate()
			}
			if one.says == "" && err != nil || one.says != "" && (err == nil || !strings.Contains(err.Error(), one.says)) {
				t.Errorf("%v, expected %q", err, one.says)
			}
		})
	}
}

// TestProblemsTogether: all errors are reported at once, and nothing is served.
func TestProblemsTogether(t *testing.T) {
	t.Parallel()
	options := NewOptions()
	options.Resources, options.LlamaStorage = []string{"goats"}, "etcd"
	_, err := New(options)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, flag := range []string{"--resources", "--llama-storage", "--tls-cert-file"} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("%v, expected to read %s", err, flag)
		}
	}
}

// TestDefaults has the defaults that the chart relies on.
func TestDefaults(t *testing.T) {
	t.Parallel()
	options := NewOptions()
	got := []any{options.Resources, options.LlamaStorage, options.ShutdownDelay, options.SecureServing.BindPort, options.Kubeconfig}
	if diff := cmp.Diff([]any{[]string{"farmpods"}, "records", 5 * time.Second, 6443, ""}, got); diff != "" {
		t.Error(diff)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.AddFlags(flags)
	for _, name := range []string{
		"resources", "llama-storage", "kubeconfig", "shutdown-delay-duration", "secure-port", "tls-cert-file", "tls-private-key-file",
		"audit-log-path", "audit-policy-file",
	} {
		if flags.Lookup(name) == nil {
			t.Errorf("--%s is no flag", name)
		}
	}
}

// TestLimits has the limits of docs/served-api.md.
func TestLimits(t *testing.T) {
	t.Parallel()
	var config genericapiserver.Config
	limit(&config)
	got := []any{config.MaxRequestBodyBytes, config.RequestTimeout, config.MinRequestTimeout, config.MaxRequestsInFlight,
		config.MaxMutatingRequestsInFlight}
	if diff := cmp.Diff([]any{int64(3145728), time.Minute, 1800, 400, 200}, got); diff != "" {
		t.Error(diff)
	}
}
