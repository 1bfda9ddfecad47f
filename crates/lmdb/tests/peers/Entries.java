// Everyday work through lmdbjava, and its own verifier for some seconds: prints what calls give.

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.lmdbjava.DbiFlags.*;
import static org.lmdbjava.PutFlags.*;
import static org.lmdbjava.SeekOp.*;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.util.concurrent.TimeUnit;
import org.lmdbjava.*;
import org.lmdbjava.CursorIterable.KeyVal;

public final class Entries {
    private interface Call {
        Object run() throws Exception;
    }

    private static void say(String what, Call call) {
        Object given;
        try {
            given = call.run();
        } catch (Exception e) {
            given = e.getClass().getSimpleName();
        }
        System.out.println(what + ": " + given);
    }

    private static ByteBuffer bytes(String text) {
        byte[] encoded = text.getBytes(UTF_8);
        ByteBuffer buffer = ByteBuffer.allocateDirect(encoded.length);
        buffer.put(encoded).flip();
        return buffer;
    }

    private static ByteBuffer number(long number) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder());
        buffer.putLong(number).flip();
        return buffer;
    }

    private static String text(ByteBuffer buffer) {
        return buffer == null ? "nothing" : UTF_8.decode(buffer.duplicate()).toString();
    }

    private static String at(Cursor<ByteBuffer> cursor, boolean found) {
        return found ? text(cursor.key()) + "=" + text(cursor.val()) : "nothing";
    }

    private static Env<ByteBuffer> open(String name, long size, EnvFlags... flags) {
        File folder = new File(name);
        folder.mkdirs();
        return Env.create().setMapSize(size).setMaxDbs(16).setMaxReaders(4).open(folder, flags);
    }

    private static String range(
        Dbi<ByteBuffer> dbi, Txn<ByteBuffer> txn, KeyRange<ByteBuffer> range) {
        StringBuilder all = new StringBuilder();
        try (CursorIterable<ByteBuffer> entries = dbi.iterate(txn, range)) {
            for (KeyVal<ByteBuffer> entry : entries) {
                all.append(text(entry.key())).append('=').append(text(entry.val())).append(' ');
            }
        }
        return all.toString();
    }

    private static void plain(Env<ByteBuffer> env) {
        Dbi<ByteBuffer> dbi = env.openDbi("plain", MDB_CREATE);
        for (int i = 0; i < 20; i += 2) {
            dbi.put(bytes("k" + (char) ('a' + i)), bytes("v" + i));
        }
        try (Txn<ByteBuffer> txn = env.txnWrite()) {
            say("a key twice", () -> dbi.put(txn, bytes("ka"), bytes("x"), MDB_NOOVERWRITE));
            say("an empty key", () -> { dbi.put(txn, bytes(""), bytes("x")); return "put"; });
            say("a key of 512 bytes", () -> {
                dbi.put(txn, bytes("k".repeat(512)), bytes("x"));
                return "put";
            });
            say("appended too early", () -> dbi.put(txn, bytes("a"), bytes("x"), MDB_APPEND));
            say("reserved", () -> {
                dbi.reserve(txn, bytes("reserved"), 5).put("12345".getBytes(UTF_8));
                return text(dbi.get(txn, bytes("reserved")));
            });
            say("deleted", () -> dbi.delete(txn, bytes("kc")) + " " + dbi.delete(txn, bytes("kd")));
            txn.commit();
        }
        try (Txn<ByteBuffer> txn = env.txnRead()) {
            say("all", () -> range(dbi, txn, KeyRange.all()));
            for (KeyRangeType type : KeyRangeType.values()) {
                KeyRange<ByteBuffer> range = new KeyRange<>(type,
                    type.isStartKeyRequired() ? bytes("kf") : null,
                    !type.isStopKeyRequired() ? null
                        : bytes(type.isDirectionForward() ? "kn" : "kb"));
                say(type.toString(), () -> range(dbi, txn, range));
            }
            say("statistics", () -> dbi.stat(txn).entries + " " + dbi.stat(txn).depth);
            say("written by a reader", () -> dbi.put(txn, bytes("x"), bytes("y"), new PutFlags[0]));
            txn.reset();
            say("after a reset", () -> text(dbi.get(txn, bytes("ka"))));
            txn.renew();
            say("renewed", () -> text(dbi.get(txn, bytes("ka"))));
        }
    }

    private static void cursors(Env<ByteBuffer> env) {
        Dbi<ByteBuffer> dbi = env.openDbi("duplicates", MDB_CREATE, MDB_DUPSORT);
        try (Txn<ByteBuffer> txn = env.txnWrite();
            Cursor<ByteBuffer> cursor = dbi.openCursor(txn)) {
            for (int i = 0; i < 12; i++) {
                cursor.put(bytes("k" + i / 4), bytes("v" + i));
            }
            say("a value twice", () -> cursor.put(bytes("k0"), bytes("v1"), MDB_NODUPDATA));
            say("reserved", () -> {
                dbi.reserve(txn, bytes("new"), 3).put("abc".getBytes(UTF_8));
                return text(dbi.get(txn, bytes("new")));
            });
            for (SeekOp op : SeekOp.values()) {
                say(op.toString(), () -> at(cursor, cursor.seek(op)));
            }
            for (GetOp op : GetOp.values()) {
                say(op.toString(), () -> at(cursor, cursor.get(bytes("k1"), op)));
            }
            say("both", () -> cursor.get(bytes("k1"), bytes("v6"), MDB_GET_BOTH));
            say("both, ranged", () -> cursor.get(bytes("k1"), bytes("v55"), MDB_GET_BOTH_RANGE));
            say("count", () -> cursor.seek(MDB_FIRST) ? cursor.count() : -1);
            say("deleted", () -> {
                cursor.delete();
                return at(cursor, cursor.seek(MDB_GET_CURRENT));
            });
            say("deleted all", () -> {
                cursor.delete(MDB_NODUPDATA);
                return at(cursor, cursor.seek(MDB_GET_CURRENT));
            });
            say("range", () -> range(dbi, txn, KeyRange.all()));
        }
        Dbi<ByteBuffer> fixed =
            env.openDbi("fixed", MDB_CREATE, MDB_DUPSORT, MDB_DUPFIXED, MDB_INTEGERDUP,
                MDB_INTEGERKEY);
        try (Txn<ByteBuffer> txn = env.txnWrite();
            Cursor<ByteBuffer> cursor = fixed.openCursor(txn)) {
            ByteBuffer many = ByteBuffer.allocateDirect(80).order(ByteOrder.nativeOrder());
            for (long i = 10; i > 0; i--) {
                many.putLong(i * 300);
            }
            many.flip();
            say("multiple", () -> {
                cursor.putMultiple(number(7), many, 10, MDB_MULTIPLE);
                return cursor.count();
            });
            say("the first", () -> cursor.seek(MDB_FIRST)
                ? cursor.val().order(ByteOrder.nativeOrder()).getLong(0) : -1);
            say("a block", () -> cursor.seek(MDB_GET_MULTIPLE) ? cursor.val().remaining() : -1);
        }
    }

    private static void orders(Env<ByteBuffer> env) {
        Dbi<ByteBuffer> dbi = env.openDbi("compared", (a, b) -> b.compareTo(a), MDB_CREATE);
        try (Txn<ByteBuffer> txn = env.txnWrite()) {
            for (String key : new String[] {"b", "a", "d", "c"}) {
                dbi.put(txn, bytes(key), bytes(key + key));
            }
            say("by a function", () -> range(dbi, txn, KeyRange.all()));
            say("from c", () -> range(dbi, txn, KeyRange.atLeast(bytes("c"))));
            try (Txn<ByteBuffer> child = env.txn(txn)) {
                dbi.put(child, bytes("e"), bytes("ee"));
                child.abort();
            }
            try (Txn<ByteBuffer> child = env.txn(txn)) {
                dbi.put(child, bytes("f"), bytes("ff"));
                child.commit();
            }
            say("after children", () -> range(dbi, txn, KeyRange.all()));
            dbi.drop(txn);
            say("emptied", () -> range(dbi, txn, KeyRange.all()));
            txn.commit();
        }
    }

    private static void environments(Env<ByteBuffer> env) {
        say("names", () -> env.getDbiNames().stream().map(name -> new String(name, UTF_8)).sorted()
            .toList());
        say("information", () -> env.info().mapSize + " " + env.info().maxReaders);
        say("longest key", () -> env.getMaxKeySize());
        say("read only", () -> env.isReadOnly());
        env.sync(true);
        say("a name that is not there", () -> env.openDbi("missing"));
        say("copied", () -> {
            Files.createDirectory(new File("copy").toPath());
            env.copy(new File("copy"), CopyFlags.MDB_CP_COMPACT);
            try (Env<ByteBuffer> copy = open("copy", 1 << 20, EnvFlags.MDB_RDONLY_ENV)) {
                Dbi<ByteBuffer> dbi = copy.openDbi("plain");
                try (Txn<ByteBuffer> txn = copy.txnRead()) {
                    return range(dbi, txn, KeyRange.all());
                }
            }
        });
        say("readers", () -> {
            try (Txn<ByteBuffer> a = env.txnRead(); Txn<ByteBuffer> b = env.txnRead();
                Txn<ByteBuffer> c = env.txnRead(); Txn<ByteBuffer> d = env.txnRead();
                Txn<ByteBuffer> e = env.txnRead()) {
                return "five";
            }
        });
        env.close();
        say("after closing", () -> env.txnRead());
    }

    /** Puts until the map is full, and goes on with a larger one. */
    private static void full() {
        try (Env<ByteBuffer> env = open("full", 1 << 20)) {
            Dbi<ByteBuffer> dbi = env.openDbi("full", MDB_CREATE);
            ByteBuffer value = ByteBuffer.allocateDirect(1000);
            say("full", () -> {
                for (long i = 0; i < 10_000; i++) {
                    dbi.put(number(i), value.duplicate());
                }
                return "never";
            });
            env.setMapSize(4 << 20);
            say("larger", () -> { dbi.put(number(-1), value); return env.info().mapSize; });
        }
    }

    private static void verify() {
        try (Env<ByteBuffer> env = open("verified", 10 << 20)) {
            say("verified", () -> new Verifier(env).runFor(3, TimeUnit.SECONDS) > 0);
        }
        say("its file", () -> new File("verified/data.mdb").length() < 3 << 20 ? "short" : "long");
    }

    public static void main(String[] none) {
        Env<ByteBuffer> env = open("entries", 10 << 20, EnvFlags.MDB_NOTLS);
        plain(env);
        cursors(env);
        orders(env);
        environments(env);
        full();
        verify();
    }
}
