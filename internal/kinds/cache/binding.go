package cache

import (
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// Binding is what an application that is bound to a cache gets: its address as one URL, under the
// names of both servers, and the file with the CA certificate by which its server is verified.
func Binding() *component.Binding {
	return &component.Binding{
		Variables: func(secret string) []component.Output {
			return []component.Output{{Name: "REDIS_URL", Secret: secret, Key: "uri"}, {Name: "VALKEY_URL", Secret: secret, Key: "uri"}}
		},
		Secret:             database.ApplicationName,
		Authority:          database.Authority,
		AuthorityVariables: []string{"REDIS_CA_FILE", "VALKEY_CA_FILE"},
		Condition:          databasev1.ConditionWritable,
		Account: func(object component.Object, _ string) component.Account {
			c, isCache := object.(*databasev1.Cache)
			if !isCache {
				return component.Account{}
			}
			return component.Account{Secret: database.ApplicationName(c.Name), Revision: c.Status.CredentialsRevision}
		},
	}
}
