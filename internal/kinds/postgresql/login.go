package postgresql

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// login is as whom a client connects, and to which database.
type login struct{ user, password, database string }

// primaryHost is the name of the Service of the primary.
func primaryHost(db *databasev1.PostgreSQL) string {
	return contract.WriteServiceName(db.Name) + "." + db.Namespace + ".svc"
}

// loginOf returns the login of the application, as its Secret says; that of the Secret that is
// about to be made if there is none. It has no password if the Secret has none, or is not ours.
func loginOf(db *databasev1.PostgreSQL, observed Observed) login {
	ref := Ref(db, "Secret", database.ApplicationName(db.Name))
	object, there := observed.Children.Get(ref)
	secret, isSecret := object.(*corev1.Secret)
	switch {
	case !there && observed.Children[ref].Object != nil:
		return login{}
	case !there || !isSecret:
		return login{user: applicationRole, password: observed.Password, database: applicationDatabase}
	}
	return login{
		user: string(secret.Data[corev1.BasicAuthUsernameKey]), password: string(secret.Data[corev1.BasicAuthPasswordKey]),
		database: string(secret.Data["dbname"]),
	}
}

// maxURI is the longest uri that is read, in bytes: those that Mainstay makes have some hundred.
const maxURI = 4 << 10

// staleURI returns the uri that the application's Secret is to have, if the one in it has another
// password than the key beside it: users change that one, and clients read either. Its host, its
// database and its options stay, and so does a uri of another user, without a password, longer than
// maxURI, or one that can't be read: a user has written it.
func staleURI(db *databasev1.PostgreSQL, observed Observed) (uri string, isStale bool) {
	found, as := observed.Children[Ref(db, "Secret", database.ApplicationName(db.Name))], loginOf(db, observed)
	secret, isSecret := found.Object.(*corev1.Secret)
	if found.Ownership != plan.Ours || !isSecret || as.user == "" || as.password == "" {
		return "", false
	}
	if len(secret.Data["uri"]) > maxURI {
		return "", false
	}
	parsed, err := url.Parse(string(secret.Data["uri"]))
	if err != nil || !strings.HasPrefix(parsed.Scheme, "postgres") {
		return "", false
	}
	password, hasPassword := parsed.User.Password()
	if !hasPassword || parsed.User.Username() != as.user || password == as.password {
		return "", false
	}
	parsed.User = url.UserPassword(as.user, as.password)
	return parsed.String(), true
}

// writesURI reports whether the uri of the application's Secret is corrected now, or is not because
// another client reverts that again and again. The Secret is not watched, and until it has the uri
// its content counts as unchanged: applications restart once.
func writesURI(db *databasev1.PostgreSQL, observed Observed, result plan.Result) bool {
	_, isStale := staleURI(db, observed)
	ref := Ref(db, "Secret", database.ApplicationName(db.Name))
	isSlowed := slices.ContainsFunc(result.SlowedChildren, func(one plan.Contest) bool { return one.Ref == ref })
	return isStale && (result.Changed(ref) || isSlowed)
}

// data is the content of a Secret with which the client connects to a host.
func (l login) data(host string, authority []byte) map[string][]byte {
	port := strconv.Itoa(serverPort)
	address := host + ":" + port
	uri := url.URL{Scheme: "postgresql", User: url.UserPassword(l.user, l.password), Host: address, Path: "/" + l.database, RawQuery: "sslmode=require"}
	jdbc := url.URL{Scheme: "postgresql", Host: address, Path: "/" + l.database, RawQuery: url.Values{
		"user": {l.user}, "password": {l.password}, "sslmode": {"require"},
	}.Encode()}
	escaped := strings.NewReplacer(`\`, `\\`, `:`, `\:`)
	pgpass := strings.Join([]string{host, port, l.database, l.user, escaped.Replace(l.password)}, ":") + "\n"
	data := map[string][]byte{database.AuthorityKey: authority}
	for key, value := range map[string]string{
		corev1.BasicAuthUsernameKey: l.user, corev1.BasicAuthPasswordKey: l.password, "dbname": l.database, "host": host, "port": port,
		"uri": uri.String(), "jdbc-uri": "jdbc:" + jdbc.String(), "pgpass": pgpass,
	} {
		data[key] = []byte(value)
	}
	return data
}
