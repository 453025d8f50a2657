"""TensorFlow's worker, in the modes that its users choose between.

Modes (each also as `-xla`, that is with jit_compile=True)
  keras-fit   keras.Sequential, compile, fit: no metrics, no callbacks but the clock
  step        a hand-written training step as one tf.function, called once per batch
  epoch       the whole epoch as one tf.function: a while loop over the batches; gathering per
              batch or the whole epoch at once, whichever is faster in a trial epoch

`step` and `epoch` update with the fused raw operators (ResourceApplyAdam,
ResourceApplyGradientDescent): one operator per variable is the fastest way TensorFlow has.
"""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402

import worker  # noqa: E402


class KerasFit(worker.Trainer):
    def __init__(self, config, jit):
        import keras

        row = config["row"]
        self.row = row
        self.images, self.labels = worker.load(config["data"], "train")
        keras.utils.set_random_seed(config["seed"])
        *hidden, last = row["sizes"][1:]
        self.model = keras.Sequential(
            [keras.Input((row["sizes"][0],))]
            + [keras.layers.Dense(size, activation="relu") for size in hidden]
            + [keras.layers.Dense(last)]
        )
        maker = keras.optimizers.Adam if row["optimizer"] == "adam" else keras.optimizers.SGD
        self.model.compile(
            optimizer=maker(learning_rate=row["rate"]),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=jit,
        )
        trainer = self

        class Clock(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                self.start = time.perf_counter()

            def on_epoch_end(self, epoch, logs=None):
                trainer.seconds.append(time.perf_counter() - self.start)
                if sum(trainer.seconds) >= trainer.budget:
                    self.model.stop_training = True

        self.clock = Clock()
        self.note = f"Keras {keras.__version__}"

    def epochs(self, count, budget):
        self.seconds, self.budget = [], budget
        self.model.fit(
            self.images,
            self.labels,
            batch_size=self.row["batch"],
            epochs=count,
            shuffle=True,
            verbose=0,
            callbacks=[self.clock],
        )
        return self.seconds

    def layers(self):
        p = self.model.get_weights()
        return list(zip(p[::2], p[1::2]))


class Graph(worker.Trainer):
    """Variables and one training step as graph operators; the modes differ in who loops."""

    def __init__(self, config):
        row = config["row"]
        self.row, self.start = row, worker.initial(row["sizes"], config["seed"])
        images, labels = worker.load(config["data"], "train")
        self.images, self.labels = tf.constant(images), tf.constant(labels)
        self.variables = [tf.Variable(value) for layer in self.start for value in layer]
        self.first = [tf.Variable(tf.zeros_like(v)) for v in self.variables]
        self.second = [tf.Variable(tf.zeros_like(v)) for v in self.variables]
        self.powers = [tf.Variable(0.9), tf.Variable(0.999)]
        tf.random.set_seed(config["seed"])

    def reset(self):
        for variable, value in zip(self.variables, [v for layer in self.start for v in layer]):
            variable.assign(value)
        for state in self.first + self.second:
            state.assign(tf.zeros_like(state))
        self.powers[0].assign(0.9)
        self.powers[1].assign(0.999)

    def train(self, x, y):
        with tf.GradientTape() as tape:
            for index in range(0, len(self.variables), 2):
                x = tf.nn.bias_add(tf.matmul(x, self.variables[index]), self.variables[index + 1])
                if index + 2 < len(self.variables):
                    x = tf.nn.relu(x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x))
        grads = tape.gradient(loss, self.variables)
        rate = tf.constant(self.row["rate"])
        if self.row["optimizer"] == "sgd":
            for v, g in zip(self.variables, grads):
                tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=rate, delta=g)
            return
        for v, m, s, g in zip(self.variables, self.first, self.second, grads):
            tf.raw_ops.ResourceApplyAdam(
                var=v.handle,
                m=m.handle,
                v=s.handle,
                beta1_power=self.powers[0],
                beta2_power=self.powers[1],
                lr=rate,
                beta1=0.9,
                beta2=0.999,
                epsilon=1e-8,
                grad=g,
            )
        self.powers[0].assign(self.powers[0] * 0.9)
        self.powers[1].assign(self.powers[1] * 0.999)

    def layers(self):
        p = [v.numpy() for v in self.variables]
        return list(zip(p[::2], p[1::2]))


class Step(Graph):
    def __init__(self, config, jit):
        super().__init__(config)

        @tf.function(jit_compile=jit, autograph=False)
        def step(index):
            self.train(tf.gather(self.images, index), tf.gather(self.labels, index))

        self.step = step
        count, batch = len(self.labels), self.row["batch"]
        self.sizes = [batch] * (count // batch) + ([count % batch] if count % batch else [])

    def epoch(self):
        order = tf.random.shuffle(tf.range(len(self.labels)))
        for index in tf.split(order, self.sizes):
            self.step(index)
        self.variables[-1].numpy()


class Epoch(Graph):
    def __init__(self, config, jit):
        super().__init__(config)
        self.graphs = {how: self.graph(how, jit) for how in ("batch", "epoch")}
        trials = []
        for how in self.graphs:
            self.how = how
            self.epoch()  # trace and compile
            trials.append((how, lambda how=how: self.trial(how)))
        self.how, _ = worker.pick(trials)
        self.reset()
        self.note = f"gather per {self.how}"

    def trial(self, how):
        self.how = how
        start = time.perf_counter()
        self.epoch()
        return time.perf_counter() - start

    def graph(self, how, jit):
        count, batch = len(self.labels), self.row["batch"]
        full = count // batch

        @tf.function(jit_compile=jit, autograph=False)
        def epoch(order):
            if how == "epoch":
                images, labels = tf.gather(self.images, order), tf.gather(self.labels, order)

            def part(start, size):
                if how == "epoch":
                    return tf.slice(images, [start, 0], [size, images.shape[1]]), tf.slice(labels, [start], [size])
                index = tf.slice(order, [start], [size])
                return tf.gather(self.images, index), tf.gather(self.labels, index)

            def body(i):
                self.train(*part(i * batch, batch))
                return (i + 1,)

            tf.while_loop(lambda i: i < full, body, (tf.constant(0),), parallel_iterations=1)
            if count % batch:
                self.train(*part(full * batch, count % batch))

        return epoch

    def epoch(self):
        self.graphs[self.how](tf.random.shuffle(tf.range(len(self.labels))))
        self.variables[-1].numpy()


def build(config):
    tf.config.threading.set_intra_op_parallelism_threads(config["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(config["threads"])
    mode = config["mode"]
    jit = mode.endswith("-xla")
    maker = {"keras-fit": KerasFit, "step": Step, "epoch": Epoch}[mode.removesuffix("-xla")]
    return maker(config, jit)


if __name__ == "__main__":
    worker.serve(build)
