import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

class Take {
  static final Duration DEADLINE = Duration.ofMillis(100);   // for the whole call
  static final HttpClient client = HttpClient.newBuilder()   // keeps connections open; their number has no limit
      .version(HttpClient.Version.HTTP_1_1).connectTimeout(DEADLINE).build();

  static boolean take(String policy, String key) throws InterruptedException {
    var body = "{\"policy\":" + quoted(policy) + ",\"key\":" + quoted(key) + "}";
    var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:7380/v1/take"))
        .timeout(DEADLINE).header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(body)).build();
    try {
      var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
      return switch (answer.statusCode()) {
        case 200 -> true;
        case 429, 503 -> false;
        default -> throw new IllegalArgumentException(answer.body());     // a mistake
      };
    } catch (IOException unavailable) {
      return true;                                                        // weir does not answer: fail open
    }
  }

  static String quoted(String text) {                                     // or what your JSON library has for it
    var json = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      json.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : c);
    }
    return json.append('"').toString();
  }
}
