import java.util.ArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

// The same as drive.py for a sample in Java: Drive SAMPLE POLICY KEY THREADS CALLS.
class Drive {
  public static void main(String[] args) throws InterruptedException {
    var admitted = new AtomicInteger();
    var longest = new AtomicLong();
    var returned = new AtomicInteger();
    int calls = Integer.parseInt(args[4]);
    Runnable ask = () -> {
      for (int i = 0; i < calls; ++i) {
        long start = System.nanoTime();
        try {
          if (Take.take(args[1], args[2])) admitted.incrementAndGet();
        } catch (InterruptedException ended) {
          return;
        }
        longest.accumulateAndGet(System.nanoTime() - start, Math::max);
        returned.incrementAndGet();
      }
    };
    var threads = new ArrayList<Thread>();
    for (int i = 0; i < Integer.parseInt(args[3]); ++i) threads.add(new Thread(ask));
    for (var thread : threads) thread.start();
    for (var thread : threads) thread.join();
    if (returned.get() != threads.size() * calls) throw new AssertionError(returned + " calls returned");
    System.out.printf("{\"admitted\": %d, \"longest\": %.3f}%n", admitted.get(), longest.get() / 1e9);
  }
}
