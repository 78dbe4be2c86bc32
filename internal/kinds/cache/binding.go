package cache

import (
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// Binding is what an application that is bound to a cache gets: its address as one URL, under both
// names that clients look for, and the file with the authority of its certificate.
func Binding() *component.Binding {
	return &component.Binding{
		Variables: func(name string) []component.Output {
			return []component.Output{
				database.FromApplication(name, "REDIS_URL", "uri"), database.FromApplication(name, "VALKEY_URL", "uri"),
			}
		},
		Authority:          func(name string) (configMap, key string) { return database.AuthorityName(name), database.AuthorityKey },
		AuthorityVariables: []string{"REDIS_CA_FILE", "VALKEY_CA_FILE"},
		Condition:          databasev1.ConditionWritable,
		Revision: func(object component.Object) string {
			if c, isCache := object.(*databasev1.Cache); isCache {
				return c.Status.CredentialsRevision
			}
			return ""
		},
	}
}
