package hack

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program writes a fake program into a folder.
func program(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

// script runs one of the scripts with the fake programs of a folder. It returns what the script
// printed, and the calls of programs that record theirs in $CALLS.
func script(t *testing.T, folder, name string, environment ...string) (output string, calls []string, err error) {
	t.Helper()
	recorded := filepath.Join(t.TempDir(), "calls")
	command := exec.CommandContext(t.Context(), name)
	// Nothing of the environment of these tests, which may be that of a workflow.
	command.Env = append([]string{
		"PATH=" + folder + ":" + os.Getenv("PATH"), "HOME=" + folder, "TMPDIR=" + folder, "CALLS=" + recorded,
		"HELM=" + filepath.Join(folder, "helm"),
	}, environment...)
	said, err := command.CombinedOutput()
	content, readErr := os.ReadFile(recorded)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		t.Fatal(readErr)
	}
	return string(said), slices.DeleteFunc(strings.Split(string(content), "\n"), func(line string) bool { return line == "" }), err
}

// withoutGit is the environment without git's variables, which name another repository in a hook.
func withoutGit() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
}

// repository makes a git repository, and returns a function that runs git in it.
func repository(t *testing.T) (folder string, git func(arguments ...string) string) {
	t.Helper()
	folder = t.TempDir()
	git = func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, arguments...)...)
		command.Dir, command.Env = folder, withoutGit()
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", arguments, err, output)
		}
		return strings.TrimSpace(string(output))
	}
	git("init", "--quiet")
	return folder, git
}

// TestVersion: the version of a commit is later than the last release and than those of the commits
// before, and earlier than the next release.
func TestVersion(t *testing.T) {
	folder, git := repository(t)
	path, err := filepath.Abs("version.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		tags []string
		want string
	}{
		{nil, "0.0.0-main.1."},
		{nil, "0.0.0-main.2."},
		{[]string{"v0.1.0"}, "0.1.1-main.0."},
		{nil, "0.1.1-main.1."},
		{[]string{"v0.9.9", "v0.10.0-rc.1", "v0.10.0-rc.2"}, "0.10.0-rc.2.main.0."},
		{nil, "0.10.0-rc.2.main.1."},
		{[]string{"v0.10.0", "vague", "v1"}, "0.10.1-main.0."},
	} {
		git("commit", "--quiet", "--allow-empty", "--message", "a change")
		for _, tag := range step.tags {
			git("tag", tag)
		}
		command := exec.CommandContext(t.Context(), path)
		command.Dir, command.Env = folder, withoutGit()
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if got, want := strings.TrimSpace(string(output)), "VERSION="+step.want+"g"+git("rev-parse", "--short=12", "HEAD"); got != want {
			t.Errorf("with the tags %q: got %s, want %s", step.tags, got, want)
		}
	}
}

func TestVersionOfARelease(t *testing.T) {
	for tag, want := range map[string]string{
		"v1.2.3": "VERSION=1.2.3\n", "v0.10.0-rc.1": "VERSION=0.10.0-rc.1\n", "1.2.3": "", "v1.2": "", "v1.2.3x": "", "v01.2.3": "",
		"v1.2.3-": "", "v1.2.3+4": "",
	} {
		output, err := exec.CommandContext(t.Context(), "./version.sh", tag).Output()
		if string(output) != want || (err != nil) != (want == "") {
			t.Errorf("%s: got %q, %v", tag, output, err)
		}
	}
}

// A staging cluster of which only the deployed version is known.
const (
	stagingKubectl = "#!/bin/sh\necho \"kubectl $(cat \"$KUBECONFIG\")\" >> \"$CALLS\"\nprintf %s \"$DEPLOYED\"\n"
	stagingMake    = "#!/bin/sh\necho \"make $* $(cat \"$KUBECONFIG\")$STAGING_KUBECONFIG\" >> \"$CALLS\"\n[ \"$1\" != \"$BROKEN\" ]\n"
)

// TestStaging: nothing is released without staging, and without a cluster the reason is said.
func TestStaging(t *testing.T) {
	folder := t.TempDir()
	program(t, folder, "kubectl", stagingKubectl)
	program(t, folder, "make", stagingMake)
	// The commits of this repository: a clone may be shallow, but has the last one.
	head, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Skipf("there is no git history: %v", err)
	}
	commit := strings.TrimSpace(string(head))
	deployed := []string{"make deploy CHART=c.tgz TAG=" + commit + " config", "make smoke config"}
	looked := append([]string{"kubectl config"}, deployed...)
	const configured = "STAGING_KUBECONFIG=config"
	for name, test := range map[string]struct {
		environment []string
		says        string
		fails       bool
		want        []string
	}{
		"a fork":                    {says: "staging: not deployed: there is no staging cluster"},
		"a fork's workflow":         {environment: []string{"GITHUB_ACTIONS=true"}, says: "::notice title=staging::not deployed"},
		"a release of a fork":       {environment: []string{"REQUIRED=true"}, says: "nothing is released", fails: true},
		"the first commit":          {environment: []string{configured, "TAG=" + commit}, want: looked},
		"the same commit again":     {environment: []string{configured, "TAG=" + commit, "DEPLOYED=" + commit}, want: looked},
		"after a release":           {environment: []string{configured, "TAG=" + commit, "DEPLOYED=1.2.3"}, want: looked},
		"a release, after a commit": {environment: []string{configured, "DEPLOYED=" + commit}, want: []string{"make deploy CHART=c.tgz TAG= config", "make smoke config"}},
		"a failed deployment":       {environment: []string{configured, "TAG=" + commit, "BROKEN=deploy"}, fails: true, want: looked[:2]},
		"a failed smoke test":       {environment: []string{configured, "TAG=" + commit, "BROKEN=smoke"}, fails: true, want: looked},
	} {
		t.Run(name, func(t *testing.T) {
			output, calls, err := script(t, folder, "./staging.sh", append(test.environment, "CHART=c.tgz")...)
			if (err != nil) != test.fails || !strings.Contains(output, test.says) {
				t.Errorf("%v: %s", err, output)
			}
			if diff := cmp.Diff(test.want, calls); diff != "" && len(test.want)+len(calls) > 0 {
				t.Error(diff)
			}
			if left, _ := filepath.Glob(filepath.Join(folder, "tmp.*")); len(left) > 0 {
				t.Errorf("the kubeconfig is left: %q", left)
			}
		})
	}
}

// TestStagingLater: the later of two commits stays.
func TestStagingLater(t *testing.T) {
	fakes, root := t.TempDir(), ""
	program(t, fakes, "kubectl", stagingKubectl)
	program(t, fakes, "make", stagingMake)
	root, git := repository(t)
	content, err := os.ReadFile("staging.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "hack"), 0o700); err != nil {
		t.Fatal(err)
	}
	program(t, filepath.Join(root, "hack"), "staging.sh", string(content))
	var commits []string
	for range 2 {
		git("commit", "--quiet", "--allow-empty", "--message", "a change")
		commits = append(commits, git("rev-parse", "HEAD"))
	}
	for _, test := range []struct {
		tag, deployed string
		want          int
	}{{commits[0], commits[1], 1}, {commits[1], commits[0], 3}} {
		output, calls, err := script(t, fakes, filepath.Join(root, "hack", "staging.sh"), "STAGING_KUBECONFIG=config", "CHART=c.tgz",
			"TAG="+test.tag, "DEPLOYED="+test.deployed)
		if err != nil || len(calls) != test.want || (test.want == 1) != strings.Contains(output, "later than "+test.tag) {
			t.Errorf("%s after %s: %v: %s: %q", test.tag, test.deployed, err, output, calls)
		}
	}
}

// cluster is a kubectl of a cluster with all our kinds, an Instrumentation and two policies.
const cluster = `#!/usr/bin/env bash
echo "kubectl $*" >> "$CALLS"
case "$*" in
*"$BROKEN"*) [ -z "$BROKEN" ] || exit 1 ;;
esac
case "$*" in
"get customresourcedefinitions"*) for kind in $KINDS; do echo "customresourcedefinition.apiextensions.k8s.io/$kind.mainstay.dev"; done ;;
"get instrumentations"*) echo instrumentation/a ;;
"get platformpolicies"*) printf 'off Off\nnone\nstrict Enforce\n' ;;
esac
`

// chartKinds returns the kinds of the chart as the script names them, in order. Records are not
// among them: nothing follows from them, and they go with their definition.
func chartKinds(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../charts/mainstay/crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, file := range files {
		group, plural, isOurs := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".mainstay.dev_")
		switch {
		case !isOurs:
			t.Errorf("%s is not named GROUP.mainstay.dev_PLURAL.yaml", file)
		case group != "records":
			kinds = append(kinds, plural+"."+group)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestUndeploy: without a word nothing but the release goes, and what stays in force is named. All
// is deleted in the order of the page, and nothing is uninstalled while something can't be deleted.
func TestUndeploy(t *testing.T) {
	folder := t.TempDir()
	program(t, folder, "kubectl", cluster)
	program(t, folder, "helm", "#!/bin/sh\necho \"helm $1 $2\" >> \"$CALLS\"\n")
	chart := chartKinds(t)
	kinds := "KINDS=" + strings.Join(chart, " ")
	deletions := []string{
		"platformpolicies.policy", "clusterinstrumentations.instrumentation", "instrumentations.instrumentation",
		"ecommerceplatforms.platform", "appstacks.platform", "webapps.apps", "postgresqls.database", "caches.database", "appconfigs.config",
		"configmonitors.config",
	}
	if diff := cmp.Diff(chart, slices.Sorted(slices.Values(deletions))); diff != "" {
		t.Errorf("a kind is missing here, and so in the script: %s", diff)
	}
	for name, test := range map[string]struct {
		environment, deleted []string
		says                 string
		fails                bool
	}{
		"the release":        {environment: []string{kinds}, says: "policy strict (spec.workloads: Enforce)"},
		"not really":         {environment: []string{kinds, "EVERYTHING=no"}, says: "there are instrumentations"},
		"an empty cluster":   {},
		"everything":         {environment: []string{kinds, "EVERYTHING=yes"}, deleted: deletions},
		"everything, partly": {environment: []string{"KINDS=webapps.apps", "EVERYTHING=yes"}, deleted: []string{"webapps.apps"}},
		"an agent that can't be removed": {environment: []string{kinds, "EVERYTHING=yes", "BROKEN=delete instrumentations"}, fails: true,
			deleted: deletions[:3]},
	} {
		t.Run(name, func(t *testing.T) {
			output, calls, err := script(t, folder, "./undeploy.sh", test.environment...)
			if (err != nil) != test.fails || !strings.Contains(output, test.says) || strings.Contains(output, "policy off") {
				t.Errorf("%v: %s", err, output)
			}
			var want []string
			for _, kind := range test.deleted {
				want = append(want, "kubectl delete "+kind+".mainstay.dev")
			}
			if !test.fails {
				want = append(want, "helm uninstall mainstay")
			}
			if len(test.deleted) > 0 && !test.fails {
				want = append(want, "kubectl delete --filename charts/mainstay/crds")
			}
			got := slices.DeleteFunc(calls, func(call string) bool { return strings.HasPrefix(call, "kubectl get") })
			for i := range got {
				if strings.Contains(got[i], ".platform.") && !strings.Contains(got[i], " --cascade=background ") {
					t.Errorf("the garbage collector deletes the children before the controller can, in no order: %s", got[i])
				}
				got[i], _, _ = strings.Cut(got[i], " --all")
				got[i], _, _ = strings.Cut(got[i], " --ignore-not-found")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
