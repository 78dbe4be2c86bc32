// Package certificates makes, keeps and rotates the certificate with which Mainstay serves webhooks
// and conversion. Every replica runs a Keeper; all of them share one Secret.
//
// # No CA key
//
// Each rotation makes a new CA, signs one certificate with it and forgets the CA's key. Who reads
// the Secret can pretend to be our webhook until the next rotation, but can sign nothing.
// So each rotation changes what clients must trust, and that is what the rest is about.
//
// # No refused request
//
//	          Secret       a replica serves   clients trust
//	before    A            A                  A
//	1         B, and A's   A                  A
//	          CA
//	2                      A                  A B      the publisher wrote Bundle, called Trusted
//	3                      B                  A B      Options.Settle later
//	4         B            B                  B        Options.Overlap after 1
//
// A replica that starts between 1 and 3 has no A. It serves B at once, and Ready says that it is
// not to be asked yet. A pair that was replaced before it was trusted is never served.
//
// With Options.External another program owns the Secret, for example cert-manager: a Keeper then
// only reads it, and itself goes on trusting the CAs that it saw until they expire.
package certificates
