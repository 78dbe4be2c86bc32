package cache

import (
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

// stored is the content of the Secret with which applications connect, as it is; nil if there is
// none of ours.
func stored(c *databasev1.Cache, observed Observed) map[string][]byte {
	object, _ := observed.Children.Get(Ref(c, "Secret", database.ApplicationName(c.Name)))
	secret, _ := object.(*corev1.Secret)
	if secret == nil {
		return nil
	}
	return secret.Data
}

// password returns the password that counts, or what keeps it from being known. The first row that
// applies counts:
//
//	situation                                             password
//	spec.passwordSecret names a Secret                    the one in it
//	the application's Secret has one: perhaps a user's    that one
//	otherwise                                             a new random one
//
// The instances use no password beside a previous one that can't be used.
func password(c *databasev1.Cache, observed Observed) (text, problem string) {
	if text, problem = present(c, observed); problem != "" {
		return "", problem
	}
	if err := valkey.CheckPrevious(previous(stored(c, observed), text)); err != nil {
		return "", fmt.Sprintf("the Secret %s/%s: %s: correct or empty it", c.Namespace, database.ApplicationName(c.Name), err)
	}
	return text, ""
}

// present is password without the check of the previous one.
func present(c *databasev1.Cache, observed Observed) (text, problem string) {
	name, content := database.ApplicationName(c.Name), stored(c, observed)
	switch {
	case c.Spec.PasswordSecret != "":
		name, content = c.Spec.PasswordSecret, observed.Given
		if content == nil {
			return "", fmt.Sprintf("spec.passwordSecret: Not found: Secret %s/%s: create it with the key %s", c.Namespace, name, PasswordKey)
		}
	case len(content[PasswordKey]) == 0:
		return observed.Password, ""
	}
	text = string(content[PasswordKey])
	if !valkey.IsPassword(text) {
		return "", fmt.Sprintf("the key %s of the Secret %s/%s must have from %d to %d printable ASCII characters without spaces and line breaks",
			PasswordKey, c.Namespace, name, valkey.ShortestPassword, valkey.LongestPassword)
	}
	return text, ""
}

// previousKey is the key of a password that is still accepted, while clients change to the new one;
// it is empty for none.
const previousKey = "password.previous"

// previous returns the password that is still accepted, given what the application's Secret has. It
// stays until the next change, or until a user empties it. One that no instance has accepted is not
// the previous one.
func previous(stored map[string][]byte, password string) string {
	former := string(stored[PasswordKey])
	if !valkey.IsPassword(former) || former == password {
		former = string(stored[previousKey])
	}
	if former == password {
		return ""
	}
	return former
}

// application is what a client needs to connect, with this password.
func application(c *databasev1.Cache, observed Observed, password string) *corev1.Secret {
	scheme, port := "rediss", strconv.Itoa(serverPort)
	if !hasTLS(c) {
		scheme, port = "redis", strconv.Itoa(int(c.Spec.PlainPort))
	}
	host := contract.WriteServiceName(c.Name) + "." + c.Namespace + ".svc"
	uri := url.URL{Scheme: scheme, User: url.UserPassword(user, password), Host: host + ":" + port}
	return &corev1.Secret{
		ObjectMeta: Common(c, observed).Meta(database.ApplicationName(c.Name)), Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(user), corev1.BasicAuthPasswordKey: []byte(password),
			"host": []byte(host), "port": []byte(port), "uri": []byte(uri.String()),
			database.AuthorityKey: observed.Certificates[database.AuthorityKey],
			previousKey:           []byte(previous(stored(c, observed), password)),
		},
	}
}
