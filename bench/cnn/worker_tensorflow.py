"""TensorFlow's worker: the whole training step as one tf.function, in both layouts of images, plain or by XLA.

Modes
  step-nhwc, step-nchw            tf.function; NCHW is refused by most of TensorFlow's CPU kernels, and then said to be
  step-nhwc-xla, step-nchw-xla    the same with jit_compile=True

The update is one fused raw operator per variable (ResourceApplyAdam, ResourceApplyGradientDescent), the fastest way that
TensorFlow has; batch normalisation is the fused operator and keeps running means.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import models  # noqa: E402
import worker  # noqa: E402


class Network:
    """The described network: variables, and the function from images to logits in training."""

    def __init__(self, name, layout, seed):
        self.layers, self.layout = models.MODELS[name](), layout
        self.random = np.random.default_rng(seed)
        self.variables, self.running = {}, {}

    def variable(self, name, shape, deviation=None):
        if name not in self.variables:
            made = np.ones(shape, np.float32)
            if deviation is not None:
                made = self.random.standard_normal(shape, np.float32) * np.float32(deviation)
            self.variables[name] = tf.Variable(made, name=name)
        return self.variables[name]

    def window(self, kernel, stride, pad):
        """(strides, explicit padding) in this layout."""
        if self.layout == "NCHW":
            return [1, 1, stride, stride], [[0, 0], [0, 0], [pad, pad], [pad, pad]]
        return [1, stride, stride, 1], [[0, 0], [pad, pad], [pad, pad], [0, 0]]

    def channels(self, x):
        return x.shape[1 if self.layout == "NCHW" else 3]

    def conv(self, name, x, out, kernel, stride, pad, bias):
        fan = self.channels(x) * kernel * kernel
        weights = self.variable(f"{name}.weight", (kernel, kernel, self.channels(x), out), (2 / fan) ** 0.5)
        strides, padding = self.window(kernel, stride, pad)
        x = tf.nn.conv2d(x, weights, strides, padding, data_format=self.layout)
        return tf.nn.bias_add(x, self.variable(f"{name}.bias", (out,), 0.0), data_format=self.layout) if bias else x

    def norm(self, name, x):
        size = (self.channels(x),)
        scale, shift = self.variable(f"{name}.scale", size), self.variable(f"{name}.shift", size, 0.0)
        for kind, value in (("mean", 0.0), ("variance", 1.0)):
            if f"{name}.{kind}" not in self.running:
                self.running[f"{name}.{kind}"] = tf.Variable(tf.fill(size, value))
        x, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, scale, shift, epsilon=1e-5, data_format=self.layout)
        for kind, value in (("mean", mean), ("variance", variance)):
            self.running[f"{name}.{kind}"].assign_sub(0.1 * (self.running[f"{name}.{kind}"] - value))
        return x

    def block(self, name, x, layer):
        way = x
        if layer.stride != 1 or self.channels(x) != layer.out:
            way = self.norm(f"{name}.way", self.conv(f"{name}.way", x, layer.out, 1, layer.stride, 0, False))
        x = tf.nn.relu(self.norm(f"{name}.a", self.conv(f"{name}.a", x, layer.out, 3, layer.stride, 1, False)))
        x = self.norm(f"{name}.b", self.conv(f"{name}.b", x, layer.out, 3, 1, 1, False))
        return tf.nn.relu(x + way)

    def logits(self, x):
        for index, layer in enumerate(self.layers):
            name = f"layer{index}"
            match layer:
                case models.Conv():
                    x = self.conv(name, x, layer.out, layer.kernel, layer.stride, layer.pad, not layer.norm)
                    x = self.norm(name, x) if layer.norm else x
                    x = tf.nn.relu(x) if layer.relu else x
                case models.Pool():
                    strides, padding = self.window(layer.kernel, layer.stride, layer.pad)
                    x = tf.pad(x, padding) if layer.pad else x  # zeros: it follows a ReLU
                    window = [layer.kernel if s != 1 or layer.stride == 1 else 1 for s in strides]
                    x = tf.nn.max_pool2d(x, window, strides, "VALID", data_format=self.layout)
                case models.Block():
                    x = self.block(name, x, layer)
                case models.Mean():
                    x = tf.reduce_mean(x, [2, 3] if self.layout == "NCHW" else [1, 2])
                case models.Flatten():
                    x = tf.reshape(x, [x.shape[0], -1])
                case models.Dropout():
                    x = tf.nn.dropout(x, 0.5)
                case models.Dense():
                    fan = x.shape[1]
                    weights = self.variable(f"{name}.weight", (fan, layer.out), (1 / fan) ** 0.5)
                    x = tf.matmul(x, weights) + self.variable(f"{name}.bias", (layer.out,), 0.0)
                    x = tf.nn.relu(x) if layer.relu else x
        return x


class Trainer:
    def __init__(self, config):
        tf.config.threading.set_intra_op_parallelism_threads(config["threads"])
        tf.config.threading.set_inter_op_parallelism_threads(config["threads"])
        tf.random.set_seed(config["seed"])
        row, mode = config["row"], config["mode"]
        layout = mode.split("-")[1].upper()
        net = Network(row["model"], layout, config["seed"])
        self.data = []
        for images, labels in worker.batches(row, config["seed"]):
            x = images if layout == "NHWC" else np.ascontiguousarray(images.transpose(0, 3, 1, 2))
            self.data.append((tf.constant(x), tf.constant(labels.astype(np.int32))))
        tf.function(net.logits, autograph=False).get_concrete_function(tf.TensorSpec(self.data[0][0].shape))  # makes the variables
        params = list(net.variables.values())
        self.parameters = int(sum(np.prod(p.shape) for p in params))
        adam, rate = row["optimizer"] == "adam", row["rate"]
        first = [tf.Variable(tf.zeros_like(p)) for p in params] if adam else []
        second = [tf.Variable(tf.zeros_like(p)) for p in params] if adam else []
        powers = [tf.Variable(1.0), tf.Variable(1.0)]

        def update(gradients):
            if not adam:
                for p, g in zip(params, gradients):
                    tf.raw_ops.ResourceApplyGradientDescent(var=p.handle, alpha=rate, delta=g)
                return
            beta1, beta2 = powers[0].assign(powers[0] * 0.9), powers[1].assign(powers[1] * 0.999)
            for p, g, m, v in zip(params, gradients, first, second):
                tf.raw_ops.ResourceApplyAdam(
                    var=p.handle, m=m.handle, v=v.handle, beta1_power=beta1, beta2_power=beta2, lr=rate,
                    beta1=0.9, beta2=0.999, epsilon=1e-8, grad=g,
                )

        @tf.function(jit_compile=mode.endswith("-xla"), autograph=False)
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=net.logits(x)))
            update(tape.gradient(loss, params))
            return loss

        self.function, self.note = step, ""
        try:
            step(*self.data[0])
        except (tf.errors.UnimplementedError, tf.errors.InvalidArgumentError) as error:
            if layout == "NCHW":
                said = [line.strip() for line in str(error.message).splitlines() if "NHWC" in line or "NCHW" in line]
                raise worker.Refused(said[-1][:160] if said else str(error.message)[-160:]) from None
            raise

    def step(self, batch):
        return self.function(*self.data[batch]).numpy()


if __name__ == "__main__":
    worker.serve(Trainer)
