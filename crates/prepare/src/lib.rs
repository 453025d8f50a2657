//! Data on its way: images to record shards, batches for training, throughput studies; on threads or on Spark.
