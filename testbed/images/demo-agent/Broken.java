package demo;

import java.lang.instrument.Instrumentation;

/** An agent that keeps its program from starting: the virtual machine aborts. */
public final class Broken {
    private Broken() {}

    public static void premain(String options, Instrumentation instrumentation) {
        throw new IllegalStateException("this version of demo-agent is broken, as it is meant to be");
    }
}
