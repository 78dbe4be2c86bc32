package injection

import (
	"path"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// loader is a variable that makes a runtime load the agent.
type loader struct {
	name, text string
	// separator is put between the container's own value and text. Empty means that the variable has a
	// single value and can't be extended.
	separator string
}

// loaders returns the variables for an agent, in the order in which they are added.
//
// Sources: JVM Tool Interface (JAVA_TOOL_OPTIONS), Node.js CLI (NODE_OPTIONS), Python's command
// line (PYTHONPATH), .NET's profiling overview (CORECLR_*), ruby(1) (RUBYOPT).
func loaders(agent *instrv1.Agent) []loader {
	loaded := path.Join(agent.MountPath, agent.Path)
	switch agent.Language {
	case instrv1.LanguageJava:
		text := "-javaagent:" + loaded
		if agent.Options != "" {
			text += "=" + agent.Options
		}
		return []loader{{"JAVA_TOOL_OPTIONS", text, " "}}
	case instrv1.LanguageNodeJS:
		return []loader{{"NODE_OPTIONS", "--require " + loaded, " "}}
	case instrv1.LanguagePython:
		return []loader{{"PYTHONPATH", loaded, ":"}}
	case instrv1.LanguageRuby:
		return []loader{{"RUBYOPT", "-r" + loaded, " "}}
	case instrv1.LanguageDotNet:
		return []loader{
			{"CORECLR_ENABLE_PROFILING", "1", ""}, {"CORECLR_PROFILER", agent.Profiler, ""}, {"CORECLR_PROFILER_PATH", loaded, ""},
		}
	case instrv1.LanguageCustom:
	}
	return nil
}

// LoaderNames returns the variables that the agent's language sets or extends. spec.env may not
// name them.
func LoaderNames(agent *instrv1.Agent) []string {
	var names []string
	for _, one := range loaders(agent) {
		names = append(names, one.name)
	}
	return names
}

// allLoaderNames are the variables of all languages: the cache must keep their values.
var allLoaderNames = func() []string {
	var names []string
	for _, language := range []instrv1.Language{
		instrv1.LanguageJava, instrv1.LanguageNodeJS, instrv1.LanguagePython, instrv1.LanguageRuby, instrv1.LanguageDotNet,
	} {
		names = append(names, LoaderNames(&instrv1.Agent{Language: language})...)
	}
	return names
}()
