import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.registry.NotifyListener;
import org.apache.dubbo.registry.Registry;
import org.apache.dubbo.registry.RegistryFactory;
import org.apache.dubbo.rpc.model.ApplicationModel;
import org.apache.dubbo.rpc.model.FrameworkModel;

/** Dubbo with its ZooKeeper registry, from registration to a call: {@code DubboRegistry HOST:PORT}. */
public final class DubboRegistry {
    private DubboRegistry() {}

    /** The service of the scenario. */
    public interface Greeting {
        String greet(String name);
    }

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        Suite suite = new Suite("dubbo: ");
        registry(suite, address);
        services(suite, address);
        System.exit(0);
    }

    private static Registry open(String address, String name) {
        ApplicationModel application = FrameworkModel.defaultModel().newApplication();
        application.getApplicationConfigManager().setApplication(new ApplicationConfig(name));
        URL url = URL.valueOf("zookeeper://" + address + "/" + RegistryFactory.class.getName() + "?session=5000")
            .setScopeModel(application);
        return application.getExtensionLoader(RegistryFactory.class).getAdaptiveExtension().getRegistry(url);
    }

    private static URL provider(int port) {
        return URL.valueOf("dubbo://127.0.0.1:" + port + "/example.Greeting?application=p&interface=example.Greeting&category=providers");
    }

    private static void registry(Suite suite, String address) throws Exception {
        Proxy proxy = new Proxy(address);
        Registry providers = open(proxy.address(), "providers");
        Registry consumers = open(address, "consumers");
        List<URL> seen = new CopyOnWriteArrayList<>();
        NotifyListener listener = urls -> {
            seen.clear();
            urls.stream().filter(url -> url.getProtocol().equals("dubbo")).forEach(seen::add);
        };
        URL query = URL.valueOf("consumer://127.0.0.1/example.Greeting?application=c&interface=example.Greeting&category=providers&check=false");
        suite.check("a registry is available", () -> Suite.that(consumers.isAvailable(), "it is not"));
        suite.check("a registration is notified", () -> {
            consumers.subscribe(query, listener);
            providers.register(provider(1));
            Suite.eventually("one provider", () -> seen.size() == 1);
            providers.register(provider(2));
            Suite.eventually("two providers", () -> seen.size() == 2);
        });
        suite.check("lookup", () -> Suite.equal(2, consumers.lookup(query).size(), "providers"));
        suite.check("an unregistration is notified", () -> {
            providers.unregister(provider(2));
            Suite.eventually("one provider", () -> seen.size() == 1);
        });
        suite.check("a provider whose session expires is gone, and registers again when it is back", () -> {
            proxy.cut();
            Suite.eventually("no provider", () -> seen.isEmpty());
            proxy.restore();
            Suite.eventually("one provider", () -> seen.size() == 1);
        });
        consumers.unsubscribe(query, listener);
        providers.destroy();
        consumers.destroy();
        proxy.close();
    }

    private static DubboBootstrap bootstrap(String name, String address) {
        ApplicationConfig application = new ApplicationConfig(name);
        application.setQosEnable(false);
        application.setRegisterMode("all");
        RegistryConfig registry = new RegistryConfig("zookeeper://" + address);
        registry.setUseAsConfigCenter(true);
        registry.setUseAsMetadataCenter(true);
        ApplicationModel model = FrameworkModel.defaultModel().newApplication();
        return DubboBootstrap.getInstance(model).application(application).registry(registry);
    }

    private static void services(Suite suite, String address) throws Exception {
        int port = freePort();
        ServiceConfig<Greeting> service = new ServiceConfig<>();
        service.setInterface(Greeting.class);
        service.setRef(name -> "hello " + name);
        ProtocolConfig protocol = new ProtocolConfig("dubbo", port);
        protocol.setHost("127.0.0.1");
        DubboBootstrap provider = bootstrap("provider", address).protocol(protocol).service(service);
        ReferenceConfig<Greeting> reference = new ReferenceConfig<>();
        reference.setInterface(Greeting.class);
        reference.setScope("remote");
        reference.setCheck(false);
        reference.setTimeout(20_000);
        DubboBootstrap consumer = bootstrap("consumer", address).reference(reference);
        suite.check("a provider is exported", provider::start);
        suite.check("a consumer finds it and calls it", () -> {
            consumer.start();
            Suite.equal("hello zebu", reference.get().greet("zebu"), "answer");
        });
        suite.check("a provider that stops is forgotten", () -> {
            provider.stop();
            Suite.eventually("calls fail", () -> {
                try {
                    reference.get().greet("nobody");
                    return false;
                } catch (org.apache.dubbo.rpc.RpcException noProvider) {
                    return true;
                }
            });
        });
        consumer.stop();
    }

    private static int freePort() throws Exception {
        try (java.net.ServerSocket socket = new java.net.ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
