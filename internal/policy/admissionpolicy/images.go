package admissionpolicy

import "github.com/distribution/reference"

// imagesExpression is a list of all images: the path of the field (at), the reference, the
// references before the update in the container or volume of the same name (was), and the
// repository with its host and a slash at the end, which is empty for an invalid reference. It does
// what kit/image does.
var imagesExpression = "(variables.containers.map(c, {'at': dyn(c.at + '.image'), 'image': dyn(c.it.?image.orValue('')), " +
	"'was': dyn(c.was.map(b, b.?image.orValue('')))}) + variables.volumes.filter(v, v.it.?image.hasValue()).map(v, " +
	"{'at': dyn(v.at + '.image.reference'), 'image': dyn(v.it.image.?reference.orValue('')), " +
	"'was': dyn(v.was.filter(b, b.?image.hasValue()).map(b, b.image.?reference.orValue('')))}))" +
	// The host, if there is one.
	".map(i, {'i': dyn(i), 'host': dyn(i.image.contains('/') ? i.image.split('/')[0] : '')})" +
	".map(h, {'i': h.i, 'host': dyn(h.host.contains('.') || h.host.contains(':') || h.host == 'localhost' || " +
	"h.host != h.host.lowerAscii() ? h.host : '')})" +
	// The rest behind it, and the host that containerd takes.
	".map(h, {'i': h.i, 'host': dyn(h.host in ['', 'index.docker.io'] ? 'docker.io' : h.host), " +
	"'rest': dyn(h.host == '' ? h.i.image : h.i.image.substring(h.host.size() + 1))})" +
	".map(h, {'i': h.i, 'host': h.host, 'rest': dyn((h.host == 'docker.io' && !h.rest.contains('/') ? 'library/' : '') + h.rest)})" +
	".map(h, {'at': h.i.at, 'image': h.i.image, 'was': h.i.was, " +
	"'repository': dyn((h.host + '/' + h.rest).matches(" + grammar + ") && !h.i.image.matches('^[a-f0-9]{64}$') && " +
	"!h.i.image.startsWith('sha256:') && !h.i.image.startsWith('sha384:') && !h.i.image.startsWith('sha512:') && " +
	"h.rest.split('@')[0].split(':')[0].size() <= 255 ? " +
	"h.host.lowerAscii() + '/' + h.rest.split('@')[0].split(':')[0] + '/' : '')})"

// grammar matches valid references with a host. The algorithms of digests are those that kit/image
// links.
var grammar = quote("^" + reference.DomainRegexp.String() + "/" + remote + "(?:/" + remote + ")*" +
	`(?::\w[\w.-]{0,127})?(?:@(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?$`)

const remote = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
