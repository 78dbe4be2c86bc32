package configmonitor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*configv1.ConfigMonitorSpec)
		// want is part of the only problem; empty for none.
		want string
	}{
		"the least":          {func(*configv1.ConfigMonitorSpec) {}, ""},
		"the other spelling": {func(s *configv1.ConfigMonitorSpec) { s.ConfigMap, s.LowerConfigMap = "", "flags" }, ""},
		"a secret":           {func(s *configv1.ConfigMonitorSpec) { s.ConfigMap, s.Secret = "", "database" }, ""},
		"both spellings":     {func(s *configv1.ConfigMonitorSpec) { s.LowerConfigMap = "other" }, `spec.configmap: Invalid value: "other": configmap is another spelling of configMap, which is set too (flags): set only one of them`},
		"neither": {func(s *configv1.ConfigMonitorSpec) { s.ConfigMap = "" },
			"spec: Required value: must set configMap or secret to the name of the object to watch"},
		"both":    {func(s *configv1.ConfigMonitorSpec) { s.Secret = "database" }, `spec.secret: Invalid value: "database": may not be set together with configMap (flags)`},
		"no name": {func(s *configv1.ConfigMonitorSpec) { s.ConfigMap = "Flags" }, `spec.configMap: Invalid value: "Flags": a lowercase RFC 1123 subdomain`},
		"keys":    {func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"app.properties", "COLOUR_1"} }, ""},
		"no key":  {func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"a", "b/c"} }, `spec.keys[1]: Invalid value: "b/c": a valid config key must consist of`},
		"no selector": {func(s *configv1.ConfigMonitorSpec) { s.PodSelector = nil },
			"spec.podSelector: Required value: must have at least one label: an empty selector would select every pod"},
		"labels": {func(s *configv1.ConfigMonitorSpec) {
			s.PodSelector = map[string]string{"example.com/team": "", "app": "web"}
		}, ""},
		"no label":           {func(s *configv1.ConfigMonitorSpec) { s.PodSelector = map[string]string{"app": "a b"} }, `spec.podSelector: Invalid value: "a b"`},
		"evict":              {func(s *configv1.ConfigMonitorSpec) { s.Strategy = configv1.StrategyEvict }, ""},
		"another strategy":   {func(s *configv1.ConfigMonitorSpec) { s.Strategy = "Kill" }, `spec.strategy: Unsupported value: "Kill": supported values: "Rollout", "Evict"`},
		"no cooldown":        {func(s *configv1.ConfigMonitorSpec) { s.Cooldown, s.Debounce = seconds(0), seconds(0) }, ""},
		"a cooldown below 0": {func(s *configv1.ConfigMonitorSpec) { s.Cooldown = seconds(-1) }, `spec.cooldown: Invalid value: "-1s": must be 0s or more`},
		"a debounce below 0": {func(s *configv1.ConfigMonitorSpec) { s.Debounce = seconds(-1) }, `spec.debounce: Invalid value: "-1s": must be 0s or more`},
		"a window":           {func(s *configv1.ConfigMonitorSpec) { s.Window = &rolloutv1.Window{Start: "22:00", End: "04:00"} }, ""},
		"no window": {func(s *configv1.ConfigMonitorSpec) { s.Window = &rolloutv1.Window{Start: "22:00", End: "22:00"} },
			"spec.window.end"},
		"one at a time": {func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = new(int32(1)) }, ""},
		"none at a time": {func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = new(int32(0)) },
			"spec.maxParallel: Invalid value: 0: must be at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := configmonitor.Validate(monitor(test.change))
			switch {
			case test.want == "" && len(problems) > 0:
				t.Error(problems)
			case test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), test.want)):
				t.Errorf("got %v, want %s", problems, test.want)
			}
		})
	}
}

// TestValidateIsDeterministic: the text is used in a condition, and must not change without a
// cause.
func TestValidateIsDeterministic(t *testing.T) {
	bad := monitor(func(s *configv1.ConfigMonitorSpec) {
		s.PodSelector = map[string]string{"a b": "1", "c d": "2", "e f": "3", "g h": "4"}
	})
	first := configmonitor.Validate(bad).ToAggregate().Error()
	for range 20 {
		if again := configmonitor.Validate(bad).ToAggregate().Error(); again != first {
			t.Fatalf("got %s and then %s", first, again)
		}
	}
}

func TestDefault(t *testing.T) {
	want := configv1.ConfigMonitorSpec{
		ConfigMap: "flags", PodSelector: map[string]string{"app": "web"}, Strategy: configv1.StrategyRollout, Cooldown: seconds(30),
		Debounce: seconds(0),
	}
	for name, change := range map[string]func(*configv1.ConfigMonitorSpec){
		"the least":          func(*configv1.ConfigMonitorSpec) {},
		"the other spelling": func(s *configv1.ConfigMonitorSpec) { s.ConfigMap, s.LowerConfigMap = "", "flags" },
	} {
		t.Run(name, func(t *testing.T) {
			made := monitor(change)
			if diff := cmp.Diff(want, made.Spec); diff != "" {
				t.Error(diff)
			}
			configmonitor.Default(made)
			if diff := cmp.Diff(want, made.Spec); diff != "" {
				t.Errorf("it is not idempotent: %s", diff)
			}
		})
	}
	given := monitor(func(s *configv1.ConfigMonitorSpec) {
		s.Strategy, s.Cooldown, s.Debounce = configv1.StrategyEvict, seconds(0), seconds(5)
	})
	if given.Spec.Strategy != configv1.StrategyEvict || *given.Spec.Cooldown != *seconds(0) || *given.Spec.Debounce != *seconds(5) {
		t.Errorf("what is given is replaced: %+v", given.Spec)
	}
}

func TestWarn(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*configv1.ConfigMonitorSpec)
		want   string
	}{
		"rollout":         {func(*configv1.ConfigMonitorSpec) {}, ""},
		"evict all":       {func(s *configv1.ConfigMonitorSpec) { s.Strategy = configv1.StrategyEvict }, "set spec.maxParallel to limit that"},
		"evict some":      {func(s *configv1.ConfigMonitorSpec) { s.Strategy, s.MaxParallel = configv1.StrategyEvict, new(int32(1)) }, ""},
		"unowned in vain": {func(s *configv1.ConfigMonitorSpec) { s.AllowUnowned = true }, "spec.allowUnowned has no effect"},
		"unowned, and evict": {func(s *configv1.ConfigMonitorSpec) {
			s.Strategy, s.AllowUnowned, s.MaxParallel = configv1.StrategyEvict, true, new(int32(1))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(configmonitor.Warn(monitor(test.change)), "; "); !strings.Contains(got, test.want) ||
				(got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
