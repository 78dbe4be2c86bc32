package instrumentationtest

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// sources are the ConfigMaps and Secrets of the namespace, by kind and name. "unseen" is not among
// them.
var sources = map[string]map[string]string{
	"ConfigMap settings": {"LOG": "debug", "JAVA_TOOL_OPTIONS": "-Dfrom=settings", "PORT": "8080"},
	"ConfigMap tools":    {"TOOL_OPTIONS": "-Dfrom=tools"},
	"ConfigMap unseen":   {"JAVA_TOOL_OPTIONS": "-Dfrom=unseen", "LOG": "unseen", "NODE_OPTIONS": "--unseen"},
	"Secret credentials": {"NODE_OPTIONS": "--from-secret", "PASSWORD": "$(PORT)"},
}

// Keys looks up the keys of sources.
func Keys(kind, name, key string) injection.Presence {
	if name == "unseen" {
		return injection.Unknown
	}
	if _, has := sources[kind+" "+name][key]; has {
		return injection.Present
	}
	return injection.Absent
}

// Environment returns the environment of a container's process, as the kubelet computes it: first
// envFrom, then env in its order, with $(NAME) replaced by what came before.
func Environment(container *corev1.Container) map[string]string {
	found := map[string]string{}
	for _, source := range container.EnvFrom {
		from := ""
		switch {
		case source.ConfigMapRef != nil:
			from = "ConfigMap " + source.ConfigMapRef.Name
		case source.SecretRef != nil:
			from = "Secret " + source.SecretRef.Name
		}
		for key, value := range sources[from] {
			found[source.Prefix+key] = value
		}
	}
	for _, variable := range container.Env {
		value := expand(variable.Value, found)
		if variable.ValueFrom != nil {
			var isThere bool
			if value, isThere = valueFrom(variable.ValueFrom); !isThere {
				continue
			}
		}
		found[variable.Name] = value
	}
	return found
}

// valueFrom returns the value of a source, and whether it exists.
func valueFrom(source *corev1.EnvVarSource) (string, bool) {
	switch {
	case source.ConfigMapKeyRef != nil && source.ConfigMapKeyRef.Optional != nil && *source.ConfigMapKeyRef.Optional:
		value, has := sources["ConfigMap "+source.ConfigMapKeyRef.Name][source.ConfigMapKeyRef.Key]
		return value, has
	case source.SecretKeyRef != nil && source.SecretKeyRef.Optional != nil && *source.SecretKeyRef.Optional:
		value, has := sources["Secret "+source.SecretKeyRef.Name][source.SecretKeyRef.Key]
		return value, has
	case source.FileKeyRef != nil && source.FileKeyRef.Optional != nil && *source.FileKeyRef.Optional:
		return "", false
	}
	content, err := json.Marshal(source)
	if err != nil {
		panic(err) //nolint:forbidigo // it can be marshalled
	}
	return "from " + string(content), true
}

// expand replaces $(NAME) where there is such a variable; $$ is one $.
//
// Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
// (env.value)
func expand(text string, known map[string]string) string {
	var expanded strings.Builder
	for text != "" {
		if rest, isEscaped := strings.CutPrefix(text, "$$"); isEscaped {
			expanded.WriteByte('$')
			text = rest
			continue
		}
		if rest, isReference := strings.CutPrefix(text, "$("); isReference {
			name, behind, isClosed := strings.Cut(rest, ")")
			if value, isKnown := known[name]; isClosed && isKnown {
				expanded.WriteString(value)
				text = behind
				continue
			}
		}
		expanded.WriteByte(text[0])
		text = text[1:]
	}
	return expanded.String()
}
