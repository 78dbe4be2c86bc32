import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.Executors;

/**
 * A small HTTP server that knows nothing of agents, and tells what one has left in it.
 *
 * <p>It serves / and, for probes, /healthz and /readyz. The environment: PORT (8080) and MESSAGE.
 */
public final class Server {
    /** The system property in which an agent leaves its mark; demo-agent sets it. */
    private static final String MARK = "demo.agent";

    private static final Map<String, String> ENVIRONMENT = System.getenv();

    private Server() {}

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(ENVIRONMENT.getOrDefault("PORT", "8080"));
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 0);
        server.createContext("/", Server::answer);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.start();
        System.out.println("serving port " + port + ", agent: " + System.getProperty(MARK));
    }

    private static void answer(HttpExchange exchange) throws IOException {
        switch (exchange.getRequestURI().getPath()) {
            case "/" -> send(exchange, 200, "application/json", mark(query(exchange, "env")));
            case "/healthz", "/readyz" -> send(exchange, 200, "text/plain", "ok\n");
            default -> send(exchange, 404, "text/plain", "there is no such page\n");
        }
    }

    /** All that a test wants to know: null is for what is not there. */
    private static String mark(String variable) {
        String value = variable == null ? null : ENVIRONMENT.get(variable);
        return "{\"message\":" + json(ENVIRONMENT.getOrDefault("MESSAGE", "Hello from demo-java"))
                + ",\"agent\":" + json(System.getProperty(MARK))
                + ",\"javaToolOptions\":" + json(ENVIRONMENT.get("JAVA_TOOL_OPTIONS"))
                + ",\"env\":" + json(value) + "}\n";
    }

    /** One parameter of the query; null where it is not given. */
    private static String query(HttpExchange exchange, String name) {
        String query = exchange.getRequestURI().getRawQuery();
        if (query == null) {
            return null;
        }
        for (String parameter : query.split("&")) {
            if (parameter.startsWith(name + "=")) {
                return URLDecoder.decode(parameter.substring(name.length() + 1), StandardCharsets.UTF_8);
            }
        }
        return null;
    }

    private static String json(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    private static void send(HttpExchange exchange, int code, String type, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(code, bytes.length);
        try (exchange) {
            exchange.getResponseBody().write(bytes);
        }
    }
}
