package product

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// javaSuite is the Debian release with OpenJDK 17.
const javaSuite = "bookworm"

// javaHome is where Debian's OpenJDK is: its architectures have the names of Go's, on amd64 and
// arm64.
const javaHome = "/usr/lib/jvm/java-17-openjdk-" + runtime.GOARCH

// javaUser is the user of images with Java programs and their agents.
const javaUser = "10001:10001"

// javaFlags are for a small program that starts quickly. It writes no performance data to /tmp,
// which may not exist, and after an agent throws no dump of a thousand lines to the log.
var javaFlags = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx32m", "-XX:-UsePerfData", "-XX:+SuppressFatalErrorMessage"}

// jrePackages are the packages that the virtual machine is linked with. All dependencies would be
// sixty packages, for fonts, printers and smart cards.
var jrePackages = []string{"libc6", "libgcc-s1", "libstdc++6", "zlib1g", "openjdk-17-jre-headless"}

// jdk returns a folder with the root file system of a compiler. The machine itself needs no Java.
func (b Builder) jdk(ctx context.Context) (string, error) {
	packages := slices.Concat(jrePackages, []string{"openjdk-17-jdk-headless"})
	key := build.Key(slices.Concat([]string{javaSuite, runtime.GOARCH}, packages)...)
	folder, err := b.Cache.Product("jdk", key, func(folder string) error {
		return b.Progress.Step("fetching a Java compiler", nil, func() error {
			scratch, err := os.MkdirTemp("", "testbed-jdk-")
			if err != nil {
				return fmt.Errorf("creating a folder for the packages: %w", err)
			}
			defer func() { _ = os.RemoveAll(scratch) }()
			files, err := fetch(ctx, javaSuite, scratch, packages)
			if err != nil {
				return err
			}
			for _, file := range files {
				if err := unpack(ctx, file, folder); err != nil {
					return err
				}
			}
			// For jlink, and a quarter of the size.
			if err := os.RemoveAll(filepath.Join(folder, javaHome, "jmods")); err != nil {
				return fmt.Errorf("removing what javac does not need: %w", err)
			}
			return os.Mkdir(filepath.Join(folder, "tmp"), 0o755)
		})
	})
	if err != nil {
		return "", err
	}
	return folder, b.Cache.Prune("jdk", folder)
}

// classes returns a folder with the compiled images/NAME.
func (b Builder) classes(ctx context.Context, name string) (string, error) {
	source := filepath.Join(b.Source, "images", name)
	sources, err := build.Sources(source)
	if err != nil {
		return "", err
	}
	folder, err := b.Cache.Product(name, build.Key(append([]string{javaSuite}, sources...)...), func(folder string) error {
		jdk, err := b.jdk(ctx)
		if err != nil {
			return err
		}
		return b.Progress.Step("compiling "+name, nil, func() error { return compileJava(ctx, jdk, source, folder) })
	})
	if err != nil {
		return "", err
	}
	return folder, b.Cache.Prune(name, folder)
}

// compileJava compiles all files of the folder source into the folder output. The compiler's root
// file system is the root, because the compiler is linked with libraries of its own Debian.
func compileJava(ctx context.Context, jdk, source, output string) error {
	work, err := os.MkdirTemp(filepath.Join(jdk, "tmp"), "compile-")
	if err != nil {
		return fmt.Errorf("creating a folder for the compiler: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.CopyFS(work, os.DirFS(source)); err != nil {
		return fmt.Errorf("copying the sources: %w", err)
	}
	files, err := fs.Glob(os.DirFS(work), "*.java")
	if err != nil {
		return fmt.Errorf("listing the sources: %w", err)
	}
	command := exec.CommandContext(ctx, javaHome+"/bin/javac", append([]string{"--release", "17", "-Xlint:all", "-Werror", "-d", "classes"},
		files...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: jdk}
	command.Dir = "/tmp/" + filepath.Base(work)
	// Without /proc the loader does not know the path of the program, beside which it looks for its
	// libraries.
	command.Env = []string{"LD_LIBRARY_PATH=" + javaHome + "/lib"}
	if messages, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", source, err, messages)
	}
	if err := os.CopyFS(output, os.DirFS(filepath.Join(work, "classes"))); err != nil {
		return fmt.Errorf("keeping the classes: %w", err)
	}
	return nil
}

// attribute is one of a jar's main attributes.
type attribute struct{ name, value string }

// jar packs a folder of classes. Equal input gives an equal file.
func jar(classes fs.FS, attributes ...attribute) ([]byte, error) {
	var manifest bytes.Buffer
	for _, a := range append([]attribute{{"Manifest-Version", "1.0"}}, attributes...) {
		manifest.WriteString(a.name + ": " + a.value + "\r\n")
	}
	manifest.WriteString("\r\n")
	var buffer bytes.Buffer
	writer := zip.NewWriter(&buffer)
	add := func(name string, content []byte) error {
		// The earliest time that the format knows.
		file, err := writer.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		return err
	}
	// It must come first.
	if err := add("META-INF/MANIFEST.MF", manifest.Bytes()); err != nil {
		return nil, fmt.Errorf("packing the manifest: %w", err)
	}
	err := fs.WalkDir(classes, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(classes, path)
		if err != nil {
			return err
		}
		return add(path, content)
	})
	if err != nil {
		return nil, fmt.Errorf("packing the classes: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("finishing the jar: %w", err)
	}
	return buffer.Bytes(), nil
}

// demoJava builds the image of Debian's Java and a server.
func (b Builder) demoJava(ctx context.Context) (string, error) {
	classes, err := b.classes(ctx, "demo-java")
	if err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp("", "testbed-demo-java-")
	if err != nil {
		return "", fmt.Errorf("creating a folder for demo-java: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	key := build.Key(slices.Concat([]string{imageRevision, filepath.Base(classes), javaSuite}, jrePackages, javaFlags)...)
	return b.tarball("demo-java", key, func() (map[string]v1.Image, error) {
		layers, err := packageLayers(ctx, javaSuite, scratch, jrePackages)
		if err != nil {
			return nil, err
		}
		return demoJavaImages(os.DirFS(classes), layers)
	})
}

// packageLayers returns a layer for each package. The files are kept in scratch. Equal packages
// give equal layers.
func packageLayers(ctx context.Context, suite, scratch string, packages []string) ([]v1.Layer, error) {
	files, err := fetch(ctx, suite, scratch, packages)
	if err != nil {
		return nil, err
	}
	return layersOf(ctx, scratch, files)
}

// layersOf returns a layer for each file of a package.
func layersOf(ctx context.Context, scratch string, files []string) ([]v1.Layer, error) {
	var layers []v1.Layer
	for i, file := range files {
		unpacked := filepath.Join(scratch, strconv.Itoa(i)+".tar")
		if err := unpackTar(ctx, file, unpacked); err != nil {
			return nil, err
		}
		layer, err := image.LayerFromTar(unpacked)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// demoJavaImages returns images with the server on top of the layers of Java.
func demoJavaImages(classes fs.FS, layers []v1.Layer) (map[string]v1.Image, error) {
	server, err := jar(classes, attribute{"Main-Class", "Server"})
	if err != nil {
		return nil, err
	}
	layer, err := image.Layer([]image.File{
		{Path: "/app/server.jar", Mode: 0o644, Data: server},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0::/:/none\njava:x:10001:10001::/:/none\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\njava:x:10001:\n")},
	})
	if err != nil {
		return nil, err
	}
	made, err := image.New(image.Config{
		Entrypoint: slices.Concat([]string{javaHome + "/bin/java"}, javaFlags, []string{"-jar", "/app/server.jar"}),
		Env:        []string{"PATH=" + javaHome + "/bin"}, User: javaUser, WorkingDir: "/", Ports: []string{"8080/tcp"},
	}, slices.Concat(layers, []v1.Layer{layer})...)
	if err != nil {
		return nil, fmt.Errorf("making %s: %w", DemoJavaImage, err)
	}
	return map[string]v1.Image{DemoJavaImage: made}, nil
}

// demoAgent builds the images of a Java agent: a good version, a better one, and a broken one.
func (b Builder) demoAgent(ctx context.Context) (string, error) {
	classes, err := b.classes(ctx, "demo-agent")
	if err != nil {
		return "", err
	}
	key := build.Key(imageRevision, filepath.Base(classes), javaSuite)
	return b.tarball("demo-agent", key, func() (map[string]v1.Image, error) {
		busybox, err := fetchBusybox(ctx)
		if err != nil {
			return nil, err
		}
		return demoAgentImages(os.DirFS(classes), busybox)
	})
}

// fetchBusybox returns Debian's statically linked busybox.
func fetchBusybox(ctx context.Context) ([]byte, error) {
	scratch, err := os.MkdirTemp("", "testbed-busybox-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for busybox: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	files, err := fetch(ctx, javaSuite, scratch, []string{"busybox-static"})
	if err != nil {
		return nil, err
	}
	if err := unpack(ctx, files[0], scratch); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(scratch, "bin", "busybox"))
	if err != nil {
		return nil, fmt.Errorf("reading busybox: %w", err)
	}
	return content, nil
}

// demoAgentImages returns images with /agent/agent.jar, cp to copy it, and sh for users who inspect
// the image.
func demoAgentImages(classes fs.FS, busybox []byte) (map[string]v1.Image, error) {
	tools, err := image.Layer([]image.File{
		{Path: "/bin/busybox", Mode: 0o755, Data: busybox},
		{Path: "/bin/cp", Link: "busybox"}, {Path: "/bin/sh", Link: "busybox"},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0::/:/bin/sh\njava:x:10001:10001::/:/bin/sh\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\njava:x:10001:\n")},
	})
	if err != nil {
		return nil, err
	}
	images := map[string]v1.Image{}
	for version, class := range map[string]string{"1.0": "demo.Agent", "2.0": "demo.Agent", "broken": "demo.Broken"} {
		agent, err := jar(classes, attribute{"Premain-Class", class}, attribute{"Implementation-Version", version})
		if err != nil {
			return nil, err
		}
		layer, err := image.Layer([]image.File{{Path: "/agent/agent.jar", Mode: 0o644, Data: agent}})
		if err != nil {
			return nil, err
		}
		reference := DemoAgentImage + ":" + version
		images[reference], err = image.New(image.Config{
			Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}, User: javaUser, WorkingDir: "/",
		}, tools, layer)
		if err != nil {
			return nil, fmt.Errorf("making %s: %w", reference, err)
		}
	}
	return images, nil
}
