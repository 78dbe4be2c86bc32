package demo;

import java.lang.instrument.Instrumentation;

/** A real agent for the Java virtual machine that leaves nothing but a mark. */
public final class Agent {
    /** The system property that is set. */
    private static final String MARK = "demo.agent";

    private Agent() {}

    /** Sets the mark to the version of this jar, and behind it the options after the = of -javaagent. */
    public static void premain(String options, Instrumentation instrumentation) {
        String version = Agent.class.getPackage().getImplementationVersion();
        System.setProperty(MARK, options == null || options.isEmpty() ? version : version + " " + options);
    }
}
