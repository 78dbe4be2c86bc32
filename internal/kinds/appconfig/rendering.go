package appconfig

import (
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Rendering is what a spec renders in an environment. It depends only on UID, generation and
// environment.
type Rendering struct {
	Content map[string]string
	Hash    string
	// Problem is why there is no content; empty if there is.
	Problem string
}

// RenderingIn returns what a spec renders in an environment, with its hash.
func RenderingIn(config *configv1.AppConfig, environment policy.Environment) Rendering {
	content, problems := RenderIn(config, environment)
	if len(problems) > 0 {
		return Rendering{Problem: problems.ToAggregate().Error()}
	}
	data := content.Data()
	return Rendering{Content: data, Hash: HashOf(data)}
}
