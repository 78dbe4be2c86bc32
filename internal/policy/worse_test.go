package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// strict requires everything.
var strict = mspolicyv1.Rule{
	MaxReplicas: new(int32(10)), AllowedRegistries: []string{"reg.io"}, RequireResourceLimits: true, RequiredLabels: []string{"team"},
	Enforced: mspolicyv1.Enforced{
		Labels: map[string]string{"tier": "gold"}, SecurityProfile: "Restricted",
		SecurityContext: &mspolicyv1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			DropCapabilities: []string{"ALL"},
		},
	},
}

// strictSubject violates nothing of strict.
func strictSubject(containers ...Container) Subject {
	s := subject(containers...)
	s.Labels = map[string]string{"team": "a", "tier": "gold"}
	return s
}

func count(name string, count int32) Subject {
	s := strictSubject()
	s.Replicas = []Replicas{{Field: at(name), Count: count}}
	return s
}

// beside has a number of pods that are not those of the object itself.
func beside(part string, number int32) Subject {
	s := count("pooler.instances", number)
	s.Replicas[0].Part = part
	return s
}

func without(keys ...string) Subject {
	s := strictSubject()
	for _, key := range keys {
		delete(s.Labels, key)
	}
	return s
}

func with(key, value string) Subject {
	s := strictSubject()
	s.Labels[key] = value
	return s
}

func inVolume(index int, reference string) Subject {
	s := strictSubject()
	s.Volumes = []Volume{{at("volumes").Index(index).Child("image", "reference"), "files", reference}}
	return s
}

func unrestricted() Subject {
	s := strictSubject()
	s.Unrestricted = func() []string { return []string{"privileged (a)"} }
	return s
}

func one(change func(*Container)) Subject { return strictSubject(container("a", change)) }

func secured(change func(*Security)) Subject { return one(loose(change)) }

func limits(pairs ...string) func(*Container) {
	return func(c *Container) { c.Limits = quantities(pairs...) }
}

// ratchet has what is wanted, what is present, and how many of the violations are new.
var ratchet = map[string]struct {
	wanted, present Subject
	worse           int
}{
	"nothing is broken":                        {count("replicas", 10), count("replicas", 99), 0},
	"as many replicas":                         {count("replicas", 12), count("replicas", 12), 0},
	"fewer, and still too many":                {count("replicas", 11), count("replicas", 12), 0},
	"more":                                     {count("replicas", 13), count("replicas", 12), 1},
	"too many, where there were few":           {count("replicas", 11), count("replicas", 10), 1},
	"as many in another field":                 {count("autoscaling.max", 12), count("replicas", 12), 0},
	"more in another field":                    {count("autoscaling.max", 13), count("replicas", 12), 1},
	"as many of other pods":                    {beside("pooler", 12), count("replicas", 12), 1},
	"as many of the same other pods":           {beside("pooler", 12), beside("pooler", 12), 0},
	"an image that runs already":               {one(imaged("evil.io/a:1")), one(imaged("evil.io/a:1")), 0},
	"another image of the same registry":       {one(imaged("evil.io/b:1")), one(imaged("evil.io/a:1")), 1},
	"another tag":                              {one(imaged("evil.io/a:2")), one(imaged("evil.io/a:1")), 1},
	"a tag that becomes a digest":              {one(imaged("evil.io/a@sha256:" + sixtyFour)), one(imaged("evil.io/a:1")), 1},
	"the image in a container of another name": {strictSubject(container("b", imaged("evil.io/a:1"))), one(imaged("evil.io/a:1")), 1},
	"the image in one more container": {strictSubject(container("a", imaged("evil.io/a:1")),
		container("b", imaged("evil.io/c:1"))), one(imaged("evil.io/a:1")), 1},
	"the image in a volume":                      {inVolume(0, "evil.io/a:1"), one(imaged("evil.io/a:1")), 1},
	"a volume that moves":                        {inVolume(3, "evil.io/a:1"), inVolume(0, "evil.io/a:1"), 0},
	"another image in a volume":                  {inVolume(0, "evil.io/b:1"), inVolume(0, "evil.io/a:1"), 1},
	"no limits, as before":                       {one(limits()), one(limits()), 0},
	"one limit fewer":                            {one(limits()), one(limits("cpu", "1")), 1},
	"one limit more":                             {one(limits("cpu", "1")), one(limits()), 0},
	"no limits in another container":             {strictSubject(container("b", limits())), one(limits()), 2},
	"a label that lacks, as before":              {without("team"), without("team"), 0},
	"another label that lacks":                   {without("team", "tier"), without("team"), 1},
	"an enforced label with another wrong value": {with("tier", "iron"), without("tier"), 0},
	"not restricted, as before":                  {unrestricted(), unrestricted(), 0},
	"not restricted, where it was":               {unrestricted(), strictSubject(), 1},
	"root, as before":                            {secured(mayBeRoot), secured(mayBeRoot), 0},
	"root in another container":                  {strictSubject(container("b", loose(mayBeRoot))), secured(mayBeRoot), 1},
	"a uid that is wrong, as before":             {secured(uid(1001)), secured(uid(1001)), 0},
	"another uid that is wrong":                  {secured(uid(0)), secured(uid(1001)), 1},
	"escalation, as before":                      {secured(escalates), secured(escalates), 0},
	"privileged, where it only escalated":        {secured(privileged), secured(escalates), 1},
	"escalation, where it was privileged":        {secured(escalates), secured(privileged), 0},
	"a capability that is kept, as before":       {secured(drop()), secured(drop()), 0},
	"a capability more":                          {secured(addsOf("NET_RAW", "SYS_TIME")), secured(addsOf("NET_RAW")), 1},
	"a capability fewer":                         {secured(addsOf("NET_RAW")), secured(addsOf("NET_RAW", "SYS_TIME")), 0},
	"a capability added where the usual ones ran": {secured(func(s *Security) { s.Drops, s.Adds = nil, []corev1.Capability{"SYS_TIME"} }),
		secured(drop()), 1},
	"a root that is written to, as well": {secured(func(s *Security) { s.RunAsNonRoot, s.ReadOnlyRootFilesystem = false, false }),
		secured(mayBeRoot), 1},
}

func mayBeRoot(s *Security)  { s.RunAsNonRoot = false }
func escalates(s *Security)  { s.AllowPrivilegeEscalation = true }
func privileged(s *Security) { s.AllowPrivilegeEscalation, s.Privileged = true, true }

func uid(id int64) func(*Security) { return func(s *Security) { s.RunAsUser = &id } }

func drop(capabilities ...corev1.Capability) func(*Security) {
	return func(s *Security) { s.Drops = capabilities }
}

func addsOf(capabilities ...corev1.Capability) func(*Security) {
	return func(s *Security) { s.Adds = capabilities }
}

// TestWorse: existing violations are tolerated, and worse ones are refused.
func TestWorse(t *testing.T) {
	rules := production(strict)
	if found := rules.Check(strictSubject(container("a"))); found != nil {
		t.Fatalf("the strict one is refused: %q", sentences(found))
	}
	for name, test := range ratchet {
		t.Run(name, func(t *testing.T) {
			wanted := rules.Check(test.wanted)
			worse := Worse(wanted, rules.Check(test.present))
			if len(worse) != test.worse {
				t.Errorf("want %d that are worse, got %q of %q", test.worse, sentences(worse), sentences(wanted))
			}
			if worse := Worse(wanted, wanted); worse != nil {
				t.Errorf("worse than itself: %q", sentences(worse))
			}
			if diff := cmp.Diff(sentences(wanted), sentences(Worse(wanted, nil))); diff != "" {
				t.Errorf("where nothing is present, all is new: %s", diff)
			}
		})
	}
}

// TestWorseByAnotherRule: what one policy or rule tolerates, another does not.
func TestWorseByAnotherRule(t *testing.T) {
	present := inShop(named("a", atMost(10, "*"))).Check(replicas(12))
	for name, test := range map[string]struct {
		rules Rules
		worse []string
	}{
		"the same rule":                       {inShop(named("a", atMost(10, "*"))), nil},
		"the same rule, which became laxer":   {inShop(named("a", atMost(11, "*"))), nil},
		"the same rule, which became tighter": {inShop(named("a", atMost(1, "*"))), nil},
		"another rule of the policy": {
			inShop(named("a", atMost(10, "*"), atMost(10, "prod"))),
			[]string{`spec.replicas: Invalid value: 12: must be at most 10 (policy "a", rule "prod.maxReplicas")`},
		},
		"another policy": {
			inShop(named("b", atMost(10, "*"))), []string{`spec.replicas: Invalid value: 12: must be at most 10 (policy "b", rule "*.maxReplicas")`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.worse, sentences(Worse(test.rules.Check(replicas(12)), present))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
