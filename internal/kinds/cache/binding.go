package cache

import (
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// Binding is what an application that is bound to a cache gets: its address as one URL, under the
// names of both servers, and the file with the authority of its certificates.
func Binding() *component.Binding {
	return &component.Binding{
		Variables: func(name string) []component.Output {
			return []component.Output{database.Variable(name, "REDIS_URL", "uri"), database.Variable(name, "VALKEY_URL", "uri")}
		},
		Authority:          database.Authority,
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
