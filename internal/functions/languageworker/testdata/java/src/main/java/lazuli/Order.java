package lazuli;

/** What the functions take and return. */
public class Order {
    public int id;
    public String item;
    public double price;

    public Order() {
    }

    public Order(int id, String item, double price) {
        this.id = id;
        this.item = item;
        this.price = price;
    }
}
